// What a worker tells its launcher of its progress, and what a terminal is given of it.
#include "troupe/report/progress.h"

#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/report/progress_bar.h"

namespace troupe::fuzz::progress_target {

std::vector<std::string> seeds() {
  Progress progress;
  Progress full;
  full.rank = 3;
  full.activity = Progress::Activity::training;
  full.step = full.validation_step = 100;
  full.total_steps = 471;
  full.epoch = 1;
  full.steps_per_second = 52.5;
  full.examples_per_second = 3360;
  full.losses = {{"loss", 0.5}, {"v\xc3\xa4rde", 1e-9}};
  full.learning_rate = 0.001;
  full.validation = {{"accuracy", 0.958}};
  return {to_line(progress), to_line(full)};
}

bool run(std::string_view input) {
  const auto progress = progress_from_line(input);
  if (!progress) return false;
  const std::string line = to_line(*progress);
  FUZZ_REQUIRE(line.size() <= kMostProgressBytes && line.find('\n') == std::string::npos);
  const auto again = progress_from_line(line);
  FUZZ_REQUIRE(again && to_line(*again) == line);
  const ProcessStatus worker{"worker/0", ProcessStatus::State::training, progress->step};
  for (const int columns : {1, 30, 60, 120}) {
    for (const std::string& drawn : progress_block(progress, {worker}, {columns})) {
      FUZZ_REQUIRE(static_cast<int>(drawn.size()) < columns);
      for (const char c : drawn) FUZZ_REQUIRE(c >= 0x20 && c < 0x7f);
    }
  }
  return true;
}

const Registration registered({"progress", seeds, run});

}  // namespace troupe::fuzz::progress_target
