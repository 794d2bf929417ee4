#include "examples/regression/births.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

using births::Birth;
using troupe::testing::TempDir;

namespace {

const std::string kHeader = "weight_pounds,is_male,mother_age,plurality,gestation_weeks\n";

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
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

  TEST_CASE("births: what is wrong with a file is said with file and place") {
    const std::string good = "7.25,1,28,1,39\n";
    const std::pair<std::string, std::string> cases[] = {
        {"", "a.csv' line 1 is the end: the file is empty"},
        {kHeader, "a.csv' line 2 is the end: there are names and no rows"},
        {good, "line 1 names no column \"weight_pounds\""},
        {kHeader + good + "7.25,1,28,1\n", "line 3 has 4 values, but the first line names 5"},
        {kHeader + "nan,1,28,1,39\n", "line 2 has weight_pounds \"nan\""},
        {kHeader + "7.25,True,28,1,39\n", "line 2 has is_male \"True\", expected one of \"0\""},
        {kHeader + "7.25,1,28.5,1,39\n", "line 2 has mother_age \"28.5\""},
        {kHeader + "7.25,1,28,6,39\n", "line 2 has plurality \"6\", expected one of \"1\""},
        {kHeader + good + "725,1,28,1,39\n", "birth 2 has weight_pounds 725, expected 0.2 to 30"},
        {kHeader + "7.25,1,280,1,39\n", "birth 1 has mother_age 280"},
        {kHeader + "7.25,1,28,1,3\n", "birth 1 has gestation_weeks 3, expected 15 to 50"},
    };
    for (const auto& [text, expected] : cases) {
      CAPTURE(expected);
      CHECK(outcome(text).find(expected) != std::string::npos);
    }
    const TempDir dir;
    CHECK_THROWS_AS((void)births::read_csv(dir / "missing.csv"), troupe::DataError);
    CHECK_THROWS_AS((void)births::read_csv(dir.path()), troupe::DataError);
  }

  TEST_CASE("generated births: the same on every machine") {
    const std::vector<Birth> births = births::generate(3, 1);
    const double weights[] = {3.805, 8.887, 5.418};
    const int ages[] = {38, 24, 35};
    const int weeks[] = {32, 39, 34};
    for (std::size_t i = 0; i < births.size(); ++i) {
      CHECK(births[i].weight_pounds == weights[i]);
      CHECK(births[i].is_male == 1);
      CHECK(births[i].mother_age == ages[i]);
      CHECK(births[i].plurality == 1);
      CHECK(births[i].gestation_weeks == weeks[i]);
    }
    std::int64_t thousandths = 0;
    for (const Birth& birth : births::generate(20'000, 1)) {
      thousandths += std::llround(birth.weight_pounds * 1000);
    }
    CHECK(thousandths == 133'811'864);
  }
}
