// The lines that a terminal shows, at any width.
#include <limits>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/report/progress_bar.h"

namespace progress_block_test {

using troupe::BlockStyle;
using troupe::ProcessStatus;
using troupe::Progress;
using troupe::progress_block;
using Lines = std::vector<std::string>;
using State = ProcessStatus::State;

namespace {

Progress half_way() {
  Progress progress;
  progress.activity = Progress::Activity::training;
  progress.step = 220;
  progress.total_steps = 440;
  progress.epoch = 1;
  progress.steps_per_second = 52;
  progress.examples_per_second = 3344.4;
  progress.losses = {{"loss", 0.037123}};
  progress.learning_rate = 0.001;
  progress.validation = {{"loss", 0.118987}, {"accuracy", 0.958}};
  progress.validation_step = 157;
  return progress;
}

std::vector<ProcessStatus> workers(int count, State state) {
  std::vector<ProcessStatus> all;
  for (int rank = 0; rank < count; ++rank)
    all.push_back({"worker/" + std::to_string(rank), state, 220});
  return all;
}

std::string processes_at(int columns, const std::vector<ProcessStatus>& processes) {
  return progress_block({}, processes, {columns}).at(0);
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("progress_block: 120, 60 and 30 columns") {
    const auto two = workers(2, State::training);
    CHECK(progress_block(half_way(), two, {120}) ==
          Lines{"[===============               ] step 220 of 440, epoch 2, ETA 0:05",
                "loss 0.03712, 3344 examples/s, learning rate 0.001",
                "validation at step 157: loss 0.119, accuracy 0.958",
                "worker/0 step 220, worker/1 step 220"});
    CHECK(progress_block(half_way(), two, {60}) ==
          Lines{"[===========           ] step 220 of 440, epoch 2, ETA 0:05",
                "loss 0.03712, 3344 examples/s, learning rate 0.001",
                "validation at step 157: loss 0.119, accuracy 0.958",
                "worker/0 step 220, worker/1 step 220"});
    CHECK(progress_block(half_way(), two, {30}) ==
          Lines{"[=====    ] 220/440, ETA 0:05", "loss 0.03712, 3344 examples/s",
                "validation: loss 0.119", "2 of 2 workers training"});
  }

  TEST_CASE("progress_block: no line reaches the last column, and none is cut within a word") {
    Progress progress = half_way();
    progress.losses = {{"generator", 1e-9}, {"discriminator", 123456789}, {"l2", 3}};
    auto processes = workers(32, State::training);
    processes[3].state = State::lost;
    processes.push_back({"ps/0", State::running});
    processes.push_back({"evaluator/0", State::running});
    for (int columns = 0; columns < 300; ++columns) {
      for (const std::string& line : progress_block(progress, processes, {columns})) {
        CHECK(static_cast<int>(line.size()) < columns);
        CHECK(line.back() != ' ');
        CHECK(line.back() != ',');
      }
    }
    CHECK(progress_block(progress, processes, {200})[1] ==
          "generator 1e-09, discriminator 1.235e+08, l2 3, 3344 examples/s, learning rate 0.001");
    CHECK(progress_block(progress, processes, {40})[1] == "generator 1e-09, 3344 examples/s");
    CHECK(progress_block(progress, processes, {20})[1] == "generator 1e-09");
  }

  TEST_CASE("progress_block: many workers are counted, and those that differ named") {
    auto all = workers(32, State::training);
    CHECK(processes_at(120, all) == "32 of 32 workers training");
    all[3].state = State::lost;
    all[9].state = State::restarting;
    all.push_back({"ps/0", State::running});
    all.push_back({"evaluator/0", State::failed});
    CHECK(processes_at(120, all) ==
          "30 of 32 workers training, evaluator/0 failed, worker/3 lost, worker/9 restarting, ps/0 "
          "running");
    CHECK(processes_at(90, all) ==
          "30 of 32 training, evaluator/0 failed, worker/3 lost, worker/9 restarting");
    CHECK(processes_at(50, all) == "30 of 32 training, 1 restarting, 1 lost");
    CHECK(processes_at(30, all) == "30 of 32 training, 1 lost");
    CHECK(processes_at(20, all) == "30 of 32 training");
    CHECK(processes_at(80, workers(3, State::running)) ==
          "worker/0 running, worker/1 running, worker/2 running");
    CHECK(processes_at(80, workers(2, State::validating)) ==
          "worker/0 validating, step 220, worker/1 validating, step 220");
  }

  TEST_CASE("progress_block: what is not known is left out, and what cannot be does no harm") {
    CHECK(progress_block({}, {}, {80}).empty());
    CHECK(progress_block(Progress(), {}, {80}).empty());
    Progress progress = half_way();
    progress.steps_per_second = 0;
    CHECK(progress_block(progress, {}, {80})[0] ==
          "[===============               ] step 220 of 440, epoch 2");
    progress.activity = Progress::Activity::validating;
    CHECK(progress_block(progress, {}, {80})[0] ==
          "[===============               ] step 220 of 440, epoch 2, validating");
    progress = half_way();
    progress.step = std::numeric_limits<std::int64_t>::max();
    progress.total_steps = 1;
    progress.epoch = std::numeric_limits<std::int64_t>::max() - 1;
    progress.steps_per_second = std::numeric_limits<double>::quiet_NaN();
    progress.examples_per_second = std::numeric_limits<double>::infinity();
    CHECK(progress_block(progress, {}, {120})[0].substr(0, 40) ==
          "[==============================] step 92");
    CHECK(progress_block(progress, {}, {120})[1] ==
          "loss 0.03712, inf examples/s, learning rate 0.001");
    progress = half_way();
    progress.total_steps = 40'000'000;
    CHECK(progress_block(progress, {}, {80})[0].find("ETA 213:40:") != std::string::npos);
  }

  TEST_CASE("progress_block: names are ASCII, and obeyed by no terminal") {
    Progress progress = half_way();
    progress.losses = {
        {"\033[2J\n\xc2\x9b"
         "31m v\xc3\xa4rde",
         1}};
    CHECK(progress_block(progress, {}, {60})[1] ==
          "?[2J??31m v?rde 1, 3344 examples/s, learning rate 0.001");
  }

  TEST_CASE("progress_block: colors are sparing, and take no room") {
    auto two = workers(2, State::training);
    two[1].state = State::lost;
    const Lines lines = progress_block(half_way(), two, {60, true});
    CHECK(lines[0] == "\033[2m[===========           ]\033[0m step 220 of 440, epoch 2, ETA 0:05");
    CHECK(lines[1] == "loss 0.03712, 3344 examples/s, learning rate 0.001");
    CHECK(lines[3] == "worker/0 step 220, \033[31mworker/1 lost\033[0m");
  }
}

}  // namespace progress_block_test
