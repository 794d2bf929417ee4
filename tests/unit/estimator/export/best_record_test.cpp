#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/export/export_samples.h"
#include "tests/unit/train/memory_file_system.h"
#include "troupe/core/error.h"
#include "troupe/export/export_directory.h"

using namespace troupe;
using namespace troupe::testing;

TEST_SUITE("export") {
  TEST_CASE("best record: what is written is read back, every bit and NaN") {
    const TempDir directory;
    PosixFileSystem files(directory.path().string());
    CHECK_FALSE(read_best(files));
    constexpr double kInf = std::numeric_limits<double>::infinity();
    write_best(files, {{1, {{"loss", 3.0}}}, "1600000000"});
    write_best(files, {{600,
                        {{"a", 0.1 + 0.2},
                         {"b", std::nan("")},
                         {"c", kInf},
                         {"d", -kInf},
                         {"e", 3.0},
                         {"f", 5e-324}}},
                       "1700000000"});
    CHECK(names_in(directory.path()) == std::set<std::string>{"best.json"});
    const auto record = read_best(files);
    REQUIRE(record);
    CHECK(record->export_name == "1700000000");
    CHECK(record->evaluation.global_step == 600);
    const auto& metrics = record->evaluation.metrics;
    REQUIRE(metrics.size() == 6);
    CHECK(metrics[0] == std::pair<std::string, double>("a", 0.1 + 0.2));
    CHECK(std::isnan(metrics[1].second));
    CHECK(metrics[2].second == kInf);
    CHECK(metrics[3].second == -kInf);
    CHECK(metrics[4].second == 3.0);
    CHECK(metrics[5].second == 5e-324);
  }

  TEST_CASE("best record: the file is as docs/export.md has it") {
    const TempDir directory;
    PosixFileSystem files(directory.path().string());
    write_best(files, {{600, {{"loss", 0.5}, {"accuracy", std::nan("")}}}, "1700000000"});
    CHECK(read_text(directory / "best.json") ==
          "{\n \"export\": \"1700000000\",\n \"format\": \"troupe-best-export\",\n"
          " \"metrics\": {\n  \"accuracy\": \"NaN\",\n  \"loss\": 0.5\n },\n"
          " \"step\": 600,\n \"version\": 1\n}\n");
  }

  TEST_CASE("best record: damage is a warning and no record") {
    const Silence silence;
    const TempDir directory;
    PosixFileSystem files(directory.path().string());
    const std::string good =
        R"({"format":"troupe-best-export","version":1,"step":6,"export":"17","metrics":{"loss":1}})";
    const auto with = [&](const std::string& from, const std::string& to) {
      std::string changed = good;
      return changed.replace(changed.find(from), from.size(), to);
    };
    write_text(directory / "best.json", good);
    REQUIRE(read_best(files));
    CHECK(read_best(files)->evaluation.at("loss") == 1.0);
    for (const std::string& bad : {std::string(),
                                   std::string("{"),
                                   std::string("[]"),
                                   std::string("null"),
                                   good.substr(0, good.size() / 2),
                                   good + "x",
                                   std::string(2 << 20, ' '),
                                   std::string(100'000, '['),
                                   with("troupe-best-export", "other"),
                                   with(":1,", ":2,"),
                                   with("6", "-6"),
                                   with("6", "6.5"),
                                   with("6", "18446744073709551615"),
                                   with("6", "\"6\""),
                                   with("\"step\"", "\"stop\""),
                                   with("\"17\"", "17"),
                                   with("\"17\"", "\"../17\""),
                                   with("{\"loss\":1}", "[1]"),
                                   with("{\"loss\":1}", "{\"loss\":\"1\"}"),
                                   with("{\"loss\":1}", "{\"loss\":null}"),
                                   with("{\"loss\":1}", "{\"loss\":1e999}"),
                                   with("{\"loss\":1}", "{\"loss\":1,\"loss\":2}"),
                                   with("loss", "\xff")}) {
      CAPTURE(bad.substr(0, 100));
      write_text(directory / "best.json", bad);
      CHECK_FALSE(read_best(files));
    }
    std::filesystem::remove(directory / "best.json");
    write_text(directory / "other", good);
    std::filesystem::create_symlink("other", directory / "best.json");
    CHECK_FALSE(read_best(files));
  }

  TEST_CASE("best record: at every crash the old or the new one is there") {
    MemoryFileSystem files;
    write_best(files, {{1, {{"loss", 0.5}}}, "1700000000"});
    bool returned = false;
    const std::function<void()> check = [&] {
      files.crash_states([&](std::unique_ptr<MemoryFileSystem> state) {
        const auto record = read_best(*state);
        REQUIRE(record);
        const std::int64_t step = record->evaluation.global_step;
        CHECK((step == 2 || (step == 1 && !returned)));
      });
    };
    files.after_change = check;
    write_best(files, {{2, {{"loss", 0.4}}}, "1700000001"});
    returned = true;
    check();
  }

  TEST_CASE("best record: a half file of a crash is replaced, a folder in the way is reported") {
    const TempDir directory;
    PosixFileSystem files(directory.path().string());
    write_text(directory / "temp-best.json", "{");
    write_best(files, {{1, {}}, "1700000000"});
    CHECK(read_best(files));
    std::filesystem::create_directory(directory / "temp-best.json");
    CHECK_THROWS_AS(write_best(files, {{2, {}}, "1700000001"}), EnvironmentError);
  }
}
