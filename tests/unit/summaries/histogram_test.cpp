#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"
#include "troupe/report/summary_reader.h"
#include "troupe/report/summary_writer.h"

using namespace troupe::testing;  // NOLINT: a test
using troupe::Histogram;
using troupe::make_histogram;

TEST_SUITE("summaries") {
  TEST_CASE("histogram: bins of equal width, the upper edge in the last one") {
    const std::vector<float> values = {0, 1, 2, 3, 4, 4, -1};
    const Histogram made = make_histogram(values, 5);
    CHECK(made.edges == std::vector<double>{-1, 0, 1, 2, 3, 4});
    CHECK(made.counts == std::vector<std::int64_t>{1, 1, 1, 1, 3});
    CHECK(made.sum == 13);
    CHECK(made.sum_of_squares == 47);
    CHECK(made.not_finite == 0);
  }

  TEST_CASE("histogram: equal values are one bin, and values that are not finite are counted") {
    const std::vector<float> equal = {2.5F, 2.5F, std::nanf(""),
                                      -std::numeric_limits<float>::infinity()};
    const Histogram made = make_histogram(equal);
    CHECK(made.edges == std::vector<double>{2.5, 2.5});
    CHECK(made.counts == std::vector<std::int64_t>{2});
    CHECK(made.not_finite == 2);
    CHECK(make_histogram({}).edges.empty());
    const std::vector<float> none = {std::nanf("")};
    CHECK(make_histogram(none).edges.empty());
  }

  TEST_CASE("histogram: no value is lost, whatever its size") {
    constexpr float kMost = std::numeric_limits<float>::max();
    const std::vector<float> values = {-kMost, kMost, 0, std::numeric_limits<float>::denorm_min(),
                                       1e-30F, 1,     -1};
    const Histogram wide = make_histogram(values);
    CHECK(std::accumulate(wide.counts.begin(), wide.counts.end(), std::int64_t{0}) == 7);
    const std::vector<float> close = {1, std::nextafterf(1, 2), 0.99999994F};
    const Histogram narrow = make_histogram(close);
    CHECK(std::accumulate(narrow.counts.begin(), narrow.counts.end(), std::int64_t{0}) == 3);
  }

  TEST_CASE("summary_writer: a histogram is a JSON line in a file of its own") {
    const TempDir folder;
    const std::vector<float> values = {0, 1, 1};
    troupe::SummaryWriter writer(folder.path(), 0, [] { return kNow; });
    writer.write(1, {{"loss", 0.5}});
    writer.write_histogram(1, "parameters/w", make_histogram(values, 2));
    const std::vector<float> none = {std::nanf("")};
    writer.write_histogram(1, "nothing", make_histogram(none));
    CHECK(content_of(folder.path() / "histograms.jsonl") ==
          "{\"step\":1,\"time\":1700000000.5,\"tag\":\"parameters/w\",\"edges\":[0.0,0.5,1.0],"
          "\"counts\":[1,2],\"sum\":2.0,\"sum_of_squares\":2.0}\n");
    CHECK(content_of(folder.path() / "summaries.jsonl") ==
          "{\"step\":1,\"time\":1700000000.5,\"loss\":0.5}\n");
    CHECK(troupe::read_scalars(folder.path()).at(1).size() == 1);  // the reader skips it
  }

  TEST_CASE("summary_writer: a resumed run says so beside its histograms, too") {
    const TempDir folder;
    const std::vector<float> values = {1};
    for (const int first : {0, 5}) {
      troupe::SummaryWriter writer(folder.path(), first, [] { return kNow; });
      writer.write_histogram(first + 1, "w", make_histogram(values));
    }
    const std::string lines = content_of(folder.path() / "histograms.jsonl");
    CHECK(lines.find("}\n{\"step\":5,\"session_start\":true,\"time\":1700000000.5}\n") !=
          std::string::npos);
  }

  TEST_CASE("summary_writer: an image is a PNG file of at most 16 MiB") {
    const TempDir folder;
    troupe::SummaryWriter writer(folder.path());
    writer.write_image(1, "digits", kTinyPng);
    CHECK_THROWS_WITH_AS(writer.write_image(1, "digits", "GIF89a"),
                         doctest::Contains("not a PNG file"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(writer.write_image(1, "digits", kTinyPng.substr(0, 23)),
                         doctest::Contains("not a PNG file"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(
        writer.write_image(1, "digits", kTinyPng + std::string(std::size_t{16} << 20, 'x')),
        doctest::Contains("larger than 16 MiB"), troupe::ConfigError);
  }
}
