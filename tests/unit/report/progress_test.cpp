// A worker's progress as a line of bytes, and back.
#include "troupe/report/progress.h"

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/test_prelude.h"

namespace progress_test {

using troupe::Progress;
using troupe::progress_from_line;

namespace {

Progress some_progress() {
  Progress progress;
  progress.rank = 3;
  progress.activity = Progress::Activity::validating;
  progress.step = 220;
  progress.first_step = 100;
  progress.total_steps = 471;
  progress.epoch = 1;
  progress.steps_per_second = 52.25;
  progress.examples_per_second = 3344;
  progress.examples = 7680;
  progress.losses = {{"loss", 0.0625}, {"v\xc3\xa4rde", std::numeric_limits<double>::quiet_NaN()}};
  progress.learning_rate = 0.001;
  progress.validation = {{"accuracy", 0.958}};
  progress.validation_step = 157;
  progress.waiting = {{"chief/0", 0.25}, {"worker/1", 0}};
  return progress;
}

/// `line` with what stands for `name` replaced.
std::string with(std::string line, const std::string& name, const std::string& value) {
  const auto begin = line.find("\"" + name + "\":") + name.size() + 3;
  return line.replace(begin, line.find_first_of(",}", begin) - begin, value);
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("progress: what is sent arrives") {
    const auto read = progress_from_line(to_line(some_progress()));
    REQUIRE(read);
    CHECK(read->rank == 3);
    CHECK(read->activity == Progress::Activity::validating);
    CHECK(read->step == 220);
    CHECK(read->first_step == 100);
    CHECK(read->total_steps == 471);
    CHECK(read->epoch == 1);
    CHECK(read->steps_per_second == 52.25);
    CHECK(read->examples_per_second == 3344);
    CHECK(read->examples == 7680);
    CHECK(read->losses[0] == std::make_pair(std::string("loss"), 0.0625));
    CHECK(std::isnan(read->losses[1].second));
    CHECK(read->learning_rate == 0.001);
    CHECK(read->validation == some_progress().validation);
    CHECK(read->validation_step == 157);
    CHECK(read->waiting == some_progress().waiting);
    CHECK(to_line(*read) == to_line(some_progress()));
  }

  TEST_CASE("progress: many names are left out, the numbers are not") {
    Progress progress = some_progress();
    for (int i = 0; i < 1000; ++i) progress.losses.emplace_back("loss of something", i);
    const std::string line = to_line(progress);
    CHECK(line.size() <= troupe::kMostProgressBytes);
    REQUIRE(progress_from_line(line));
    CHECK(progress_from_line(line)->step == 220);
    CHECK(progress_from_line(line)->losses.empty());
  }

  TEST_CASE("progress: bytes that are none are refused, and numbers that cannot be") {
    const std::string line = to_line(some_progress());
    CHECK_FALSE(progress_from_line(""));
    CHECK_FALSE(progress_from_line("{}"));
    CHECK_FALSE(progress_from_line("[1]"));
    CHECK_FALSE(progress_from_line(line + "x"));
    CHECK_FALSE(progress_from_line(line.substr(0, line.size() - 1)));
    CHECK_FALSE(progress_from_line(line + std::string(troupe::kMostProgressBytes, ' ')));
    CHECK(progress_from_line(with(line, "step", "0")));
    for (const char* name :
         {"rank", "step", "first_step", "total_steps", "epoch", "examples", "validation_step"}) {
      CAPTURE(name);
      for (const char* value :
           {"-1", "1e300", "1.5", "18446744073709551615", "null", "\"1\"", "[]"})
        CHECK_FALSE(progress_from_line(with(line, name, value)));
    }
    CHECK_FALSE(progress_from_line(with(line, "rank", "1048577")));
    CHECK_FALSE(progress_from_line(with(line, "activity", "\"idle\"")));
    CHECK_FALSE(progress_from_line(with(line, "steps_per_second", "\"fast\"")));
    CHECK_FALSE(progress_from_line(with(line, "learning_rate", "\"0.1\"")));
  }
}

}  // namespace progress_test
