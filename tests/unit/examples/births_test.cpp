#include "examples/regression/births.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "examples/regression/generated_births.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

using births::Birth;
using troupe::testing::TempDir;

namespace {

const std::string kHeader = "weight_pounds,is_male,mother_age,plurality,gestation_weeks\n";

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t entries(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
}

/// What reading a file of this content comes to: the number of births, or the error's text.
std::string outcome(const std::string& text) {
  const TempDir dir;
  write(dir / "a.csv", text);
  try {
    return std::to_string(births::read_csv(dir / "a.csv").size());
  } catch (const troupe::DataError& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE(
      "births: a file is read with LF or CR LF, and with or without an end of its last line") {
    const TempDir dir;
    write(dir / "a.csv", kHeader + "7.25,1,28,1,39\n0.5,0,41,5,24\n");
    const std::vector<Birth> births = births::read_csv(dir / "a.csv");
    REQUIRE(births.size() == 2);
    CHECK(births[0].weight_pounds == 7.25);
    CHECK(births[0].is_male == 1);
    CHECK(births[0].mother_age == 28);
    CHECK(births[0].plurality == 1);
    CHECK(births[0].gestation_weeks == 39);
    CHECK(births[1].plurality == 5);
    CHECK(outcome(kHeader + "7.25,1,28,1,39") == "1");
    std::string windows = kHeader + "7.25,1,28,1,39\n";
    for (std::size_t i = windows.find('\n'); i != std::string::npos;
         i = windows.find('\n', i + 2)) {
      windows.insert(i, "\r");
    }
    CHECK(outcome(windows) == "1");
  }

  TEST_CASE("births: what is wrong with a file is said with file and line") {
    const std::string good = "7.25,1,28,1,39\n";
    const std::pair<std::string, std::string> cases[] = {
        {"", "a.csv' is empty"},
        {kHeader, "line 1 is the last one: there are no births"},
        {good, "line 1 is \"7.25,1,28,1,39\", which is not the header"},
        {kHeader + good + "7.25,1,28,1\n", "line 3 does not have 5 columns: \"7.25,1,28,1\""},
        {kHeader + "7.25,1,28,1,39,0\n", "line 2 does not have 5 columns"},
        {kHeader + good + "\n" + good, "line 3 does not have 5 columns: \"\""},
        {kHeader + "heavy,1,28,1,39\n", "line 2 has weight_pounds \"heavy\", expected a number"},
        {kHeader + "nan,1,28,1,39\n", "line 2 has weight_pounds \"nan\""},
        {kHeader + "inf,1,28,1,39\n", "line 2 has weight_pounds \"inf\""},
        {kHeader + "7.25,True,28,1,39\n", "line 2 has is_male \"True\", expected a whole number"},
        {kHeader + "7.25,1,28.5,1,39\n", "line 2 has mother_age \"28.5\""},
        {kHeader + "7.25,1,28,6,39\n",
         "line 2 has plurality \"6\", expected a whole number from 1"},
        {kHeader + "7.25,1,28,1,39 \n", "line 2 has gestation_weeks \"39 \""},
        {kHeader + "7.25,1,28,1,\n", "line 2 has gestation_weeks \"\""},
        {kHeader + std::string("7.2\0,1,28,1,39\n", 15), "line 2 has weight_pounds \"7.2?\""},
        {kHeader + std::string(201, '7') + "\n", "line 2 is longer than 200 characters"},
        {kHeader + std::string(1'000'000, '7'), "line 2 is longer than 200 characters"},
    };
    for (const auto& [text, expected] : cases) {
      CAPTURE(expected);
      CHECK(outcome(text).find(expected) != std::string::npos);
    }
    const TempDir dir;
    CHECK_THROWS_AS((void)births::read_csv(dir / "missing.csv"), troupe::DataError);
    CHECK_THROWS_AS((void)births::read_csv(dir.path()), troupe::DataError);
  }

  TEST_CASE("births: what is written is read back") {
    const TempDir dir;
    const std::vector<Birth> births = births::generate(500, 3);
    births::write_csv(dir / "a.csv", births);
    const std::vector<Birth> again = births::read_csv(dir / "a.csv");
    REQUIRE(again.size() == births.size());
    for (std::size_t i = 0; i < births.size(); ++i) {
      CHECK(again[i].weight_pounds == births[i].weight_pounds);
      CHECK(again[i].gestation_weeks == births[i].gestation_weeks);
    }
    CHECK_THROWS_AS(births::write_csv(dir / "missing" / "a.csv", births), troupe::EnvironmentError);
  }

  TEST_CASE("generated births: the same on every machine") {
    const TempDir dir;
    births::write_csv(dir / "a.csv", births::generate(3, 1));
    CHECK(content(dir / "a.csv") ==
          kHeader + "3.805,1,38,1,32\n8.887,1,24,1,39\n5.418,1,35,1,34\n");
    std::int64_t thousandths = 0;
    for (const Birth& birth : births::generate(20'000, 1)) {
      thousandths += std::llround(birth.weight_pounds * 1000);
    }
    CHECK(thousandths == 133'811'864);
  }

  TEST_CASE("generated births: a folder gets both files, and keeps those it has") {
    const TempDir dir;
    const std::filesystem::path folder =
        births::make_folder((dir / "new" / "births").string() + "/", 20);
    CHECK(folder == dir / "new" / "births");
    CHECK(births::read_csv(folder / "train.csv").size() == 20);
    CHECK(births::read_csv(folder / "eval.csv").size() == births::kEvalRows);
    const std::string before = content(folder / "train.csv");
    (void)births::make_folder(folder.string(), 30);
    CHECK(content(folder / "train.csv") == before);
    // Nothing else is left beside it.
    CHECK(entries(dir / "new") == 1);
  }

  TEST_CASE("generated births: workers that start together share one folder") {
    const TempDir dir;
    for (int round = 0; round < 10; ++round) {
      const auto folder = dir / ("births" + std::to_string(round));
      if (round % 2 == 1) std::filesystem::create_directory(folder);  // empty
      std::vector<std::thread> workers;
      std::atomic<int> right{0};
      for (int i = 0; i < 4; ++i) {
        workers.emplace_back([&] {
          try {
            const auto made = births::make_folder(folder.string(), 20);
            if (births::read_csv(made / "train.csv").size() == 20) ++right;
          } catch (const std::exception&) {  // counts as wrong
          }
        });
      }
      for (std::thread& worker : workers) worker.join();
      CHECK(right == 4);
    }
    CHECK(entries(dir.path()) == 10);
  }

  TEST_CASE("generated births: a folder with something else in it is left alone") {
    const TempDir dir;
    write(dir / "train.csv", kHeader);
    CHECK_THROWS_WITH_AS((void)births::make_folder(dir.path().string(), 20),
                         doctest::Contains("there is no eval.csv"), troupe::DataError);
    CHECK_THROWS_AS((void)births::make_folder((dir / "train.csv").string(), 20), troupe::DataError);
    CHECK(entries(dir.path()) == 1);
  }
}
