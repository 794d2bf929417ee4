// SummaryWriter: both files, what a later run adds to them, and what a killed one left.
#include "troupe/report/summary_writer.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"
#include "troupe/report/event_file.h"
#include "troupe/report/summary_reader.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
namespace fs = std::filesystem;
using troupe::read_scalars;
using troupe::ScalarHistory;
using troupe::SummaryWriter;

troupe::WallTime now() { return kNow; }

std::vector<std::string> tags_in(const fs::path& file) {
  std::vector<std::string> tags;
  troupe::RecordReader reader(file.string());
  for (std::string record; reader.next(record);) {
    for (const std::string& tag : troupe::decode_event(record).tags) tags.push_back(tag);
  }
  return tags;
}

std::string lines_of(const fs::path& directory) {
  return content_of(directory / "summaries.jsonl");
}

}  // namespace

TEST_SUITE("summaries") {
  TEST_CASE("summary_writer: makes directory and files with the first value") {
    const TempDir dir;
    const fs::path directory = dir / "model" / "eval";
    SummaryWriter writer(directory.string(), std::nullopt, now);
    writer.write(1, {});
    CHECK_FALSE(fs::exists(dir / "model"));
    writer.write(1, {{"loss", 1}});
    CHECK(event_names(directory).size() == 1);
    CHECK(fs::exists(directory / "summaries.jsonl"));
  }

  TEST_CASE(
      "summary_writer: a pipe or a link in the place of a file is refused, and nothing waits") {
    const TempDir dir;
    const auto refused = [&](const char* reason) {
      SummaryWriter writer(dir.path().string(), std::nullopt, now);
      CHECK_THROWS_WITH_AS(writer.write(1, {{"loss", 1}}), doctest::Contains(reason),
                           troupe::EnvironmentError);
    };
    fs::create_symlink(dir / "outside", dir / "summaries.jsonl");
    refused("summaries.jsonl' cannot be written: it is a symbolic link");
    CHECK_FALSE(fs::exists(dir / "outside"));
    fs::remove(dir / "summaries.jsonl");
    REQUIRE(::mkfifo((dir / "summaries.jsonl").c_str(), 0600) == 0);
    refused("summaries.jsonl' is not a regular file");
  }

  TEST_CASE("summary_writer: every value is in both files when write returns") {
    const TempDir dir;
    SummaryWriter writer(dir.path().string(), 0, now);
    writer.write(100, {{"loss", 0.25}, {"global_step/sec", 150}});
    CHECK(lines_of(dir.path()) ==
          "{\"step\":100,\"time\":1700000000.5,\"loss\":0.25,\"global_step/sec\":150.0}\n");
    CHECK(read_scalars(dir.path().string()) ==
          ScalarHistory{{100, {{"loss", 0.25}, {"global_step/sec", 150}}}});
    writer.write_text(100, "checkpoint_path", "model.ckpt-100");
    writer.write(200, {{"loss", 0.1}});
    CHECK(lines_of(dir.path()) ==
          "{\"step\":100,\"time\":1700000000.5,\"loss\":0.25,\"global_step/sec\":150.0}\n"
          "{\"step\":100,\"time\":1700000000.5,\"checkpoint_path\":\"model.ckpt-100\"}\n"
          "{\"step\":200,\"time\":1700000000.5,\"loss\":0.1}\n");
    CHECK(read_scalars(dir.path().string()).at(200).at("loss") == double{0.1F});
    CHECK(event_names(dir.path()).size() == 1);
  }

  TEST_CASE(
      "summary_writer: values that are no numbers are null in JSON and as they are in events") {
    const TempDir dir;
    SummaryWriter writer(dir.path().string(), 0, now);
    const double infinity = std::numeric_limits<double>::infinity();
    writer.write(1, {{"a", infinity}, {"b", -infinity}, {"c", std::nan("")}});
    CHECK(lines_of(dir.path()) ==
          "{\"step\":1,\"time\":1700000000.5,\"a\":null,\"b\":null,\"c\":null}\n");
    const auto values = read_scalars(dir.path().string()).at(1);
    CHECK(values.at("a") == infinity);
    CHECK(values.at("b") == -infinity);
    CHECK(std::isnan(values.at("c")));
  }

  TEST_CASE("summary_writer: names that JSON or UTF-8 cannot hold are changed, not lost") {
    const TempDir dir;
    SummaryWriter writer(dir.path().string(), 0, now);
    writer.write(1, {{"step", 5}, {"quote\"", 6}});
    writer.write_text(2, "path", "caf\xE9");
    CHECK(lines_of(dir.path()) ==
          "{\"step\":1,\"time\":1700000000.5,\"scalar/step\":5.0,\"quote\\\"\":6.0}\n"
          "{\"step\":2,\"time\":1700000000.5,\"path\":\"caf\xEF\xBF\xBD\"}\n");
    CHECK(read_scalars(dir.path().string()) == ScalarHistory{{1, {{"step", 5}, {"quote\"", 6}}}});
    const std::string events = content_of(dir / event_names(dir.path())[0]);
    CHECK(events.find("caf\xEF\xBF\xBD") != std::string::npos);
  }

  TEST_CASE("summary_writer: a resumed run takes back what the former one wrote of its steps") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    {
      SummaryWriter former(directory, 0, now);
      for (const int step : {1, 2, 3}) former.write(step, {{"loss", 1.0 * step}});
    }
    const std::string before = lines_of(dir.path());
    CHECK(before.find("session_start") == std::string::npos);
    SummaryWriter resumed(directory, 2, now);
    CHECK(read_scalars(directory).size() == 3);  // nothing is forgotten before something is new
    resumed.write(2, {{"loss", 20}});
    resumed.write(3, {{"loss", 30}});
    CHECK(read_scalars(directory) ==
          ScalarHistory{{1, {{"loss", 1}}}, {2, {{"loss", 20}}}, {3, {{"loss", 30}}}});
    CHECK(lines_of(dir.path()) == before +
                                      "{\"step\":2,\"session_start\":true,\"time\":1700000000.5}\n"
                                      "{\"step\":2,\"time\":1700000000.5,\"loss\":20.0}\n"
                                      "{\"step\":3,\"time\":1700000000.5,\"loss\":30.0}\n");
  }

  TEST_CASE("summary_writer: a run that begins anew beside old summaries takes them back") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    { SummaryWriter(directory, 0, now).write(50, {{"loss", 50}}); }
    SummaryWriter anew(directory, 0, now);
    anew.write(10, {{"loss", 10}});
    CHECK(read_scalars(directory) == ScalarHistory{{10, {{"loss", 10}}}});
    CHECK(lines_of(dir.path()).find("{\"step\":0,\"session_start\":true") != std::string::npos);
  }

  TEST_CASE("summary_writer: without a first step nothing is taken back") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    for (const int step : {20, 10}) {
      SummaryWriter(directory, std::nullopt, now).write(step, {{"loss", 1.0 * step}});
    }
    CHECK(read_scalars(directory) == ScalarHistory{{10, {{"loss", 10}}}, {20, {{"loss", 20}}}});
    CHECK(lines_of(dir.path()) ==
          "{\"step\":20,\"time\":1700000000.5,\"loss\":20.0}\n"
          "{\"step\":10,\"time\":1700000000.5,\"loss\":10.0}\n");
  }

  TEST_CASE("summary_writer: half a line of a killed run is cut before more is written") {
    const TempDir dir;
    replace(dir / "summaries.jsonl", "{\"step\":1,\"time\":0.0,\"loss\":1.0}\n{\"step\":2,\"ti");
    SummaryWriter(dir.path().string(), std::nullopt, now).write(3, {{"loss", 3}});
    CHECK(lines_of(dir.path()) ==
          "{\"step\":1,\"time\":0.0,\"loss\":1.0}\n"
          "{\"step\":3,\"time\":1700000000.5,\"loss\":3.0}\n");
  }

  TEST_CASE("summary_writer: what a lost process has told is not told twice") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    const troupe::Histogram histogram{{0, 1}, {3}, 1.5, 0.9, 0};
    SummaryWriter lost(directory, std::nullopt, now);
    lost.begin_session(1, /*again=*/false);
    lost.write(1, {{"loss", 1}});
    lost.write(1, {{"global_step/sec", 100}});
    lost.write_histogram(1, "w", histogram);
    SummaryWriter next(directory, std::nullopt, now);
    next.begin_session(1, /*again=*/true);
    next.write(1, {{"loss", 1}}, /*again=*/true);
    next.write(1, {{"global_step/sec", 90}}, /*again=*/true);  // its own speed: the same record
    next.write_histogram(1, "w", histogram, /*again=*/true);
    next.write(1, {{"loss", 1}}, /*again=*/true);  // a second one of that name was not there
    next.write(2, {{"loss", 2}}, /*again=*/true);
    CHECK(lines_of(dir.path()) ==
          "{\"step\":1,\"session_start\":true,\"time\":1700000000.5}\n"
          "{\"step\":1,\"time\":1700000000.5,\"loss\":1.0}\n"
          "{\"step\":1,\"time\":1700000000.5,\"global_step/sec\":100.0}\n"
          "{\"step\":1,\"time\":1700000000.5,\"loss\":1.0}\n"
          "{\"step\":2,\"time\":1700000000.5,\"loss\":2.0}\n");
    const auto names = event_names(dir.path());
    REQUIRE(names.size() == 2);
    CHECK(tags_in(dir / names[0]) == std::vector<std::string>{"loss", "global_step/sec", "w"});
    CHECK(tags_in(dir / names[1]) == std::vector<std::string>{"loss", "loss"});
  }

  TEST_CASE("summary_writer: an event whose line was lost with its process is there once") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    SummaryWriter lost(directory, std::nullopt, now);
    lost.write(1, {{"loss", 1}});
    lost.write(2, {{"loss", 2}});
    replace(dir / "summaries.jsonl", "{\"step\":1,\"time\":1700000000.5,\"loss\":1.0}\n{\"st");
    SummaryWriter next(directory, std::nullopt, now);
    next.write(2, {{"loss", 2}}, /*again=*/true);
    CHECK(lines_of(dir.path()) ==
          "{\"step\":1,\"time\":1700000000.5,\"loss\":1.0}\n"
          "{\"step\":2,\"time\":1700000000.5,\"loss\":2.0}\n");
    CHECK(event_names(dir.path()).size() == 1);
  }

  TEST_CASE("summary_writer: the system's clock is the default") {
    const TempDir dir;
    SummaryWriter(dir.path().string()).write(1, {{"loss", 1}});
    CHECK(event_names(dir.path())[0] > "events.out.tfevents.17");
  }

  TEST_CASE("summary_writer: a directory that cannot be is an error") {
    const TempDir dir;
    replace(dir / "file", "");
    for (const fs::path& directory : {dir / "file", dir / "file" / "eval"}) {
      SummaryWriter writer(directory.string());
      CHECK_THROWS_AS(writer.write(1, {{"loss", 1}}), troupe::EnvironmentError);
    }
    fs::create_directories(dir / "model" / "summaries.jsonl");
    SummaryWriter writer((dir / "model").string());
    CHECK_THROWS_AS(writer.write(1, {{"loss", 1}}), troupe::EnvironmentError);
  }
}
