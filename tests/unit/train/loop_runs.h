// Whole programs with a training loop of their own: run to the end, or crashed in the middle and
// started again.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/train/stateful_hooks.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/train/training_run.h"

namespace troupe::testing {

/// What ends a program in the middle of its loop.
struct Crash : std::runtime_error {
  Crash() : std::runtime_error("the loop's body has crashed") {}
};

/// A process's whole life but for its loop.
struct Program {
  template <class SomeHooks>
  Program(const SomeHooks& with, TrainOptions how)
      : kept(std::make_shared<SomeHooks>(with)),
        options(std::move(how)),
        state(strategy->create_state(hooks, options.seed)),
        data(strategy->distribute(hooks.create_datasets(), options.batches())) {}

  const std::shared_ptr<const Hooks> kept;
  const Hooks& hooks = *kept;
  TrainOptions options;
  std::unique_ptr<Strategy> strategy = make_one_device({});
  TrainState state;
  DistributedSplits data;
  int moments_left = -1;  // until it crashes; below 0: it does not

  [[nodiscard]] std::unique_ptr<TrainingRun> begin(Callbacks callbacks = {}) {
    return std::make_unique<TrainingRun>(*strategy, hooks, state, data, options,
                                         std::move(callbacks));
  }
  /// A place in the body where it may crash.
  void moment() {
    if (moments_left >= 0 && moments_left-- == 0) throw Crash();
  }
};

/// The part of a program between the run's construction and its finish().
using Loop = std::function<void(TrainingRun& run, Program& program)>;

/// What a program ends with; compared bit for bit.
struct LoopEnding {
  std::string hash;
  std::int64_t step = 0;
  LossValues train, validation;
  std::map<std::string, double> kept;
  double drawn = 0;  // the next random number
  std::string reason;
  bool operator==(const LoopEnding& other) const {
    return hash == other.hash && step == other.step && train == other.train &&
           validation == other.validation && kept == other.kept && drawn == other.drawn &&
           reason == other.reason;
  }
};

inline LoopEnding run_loop(Program& program, const Loop& loop) {
  const auto run = program.begin();
  loop(*run, program);
  const History history = run->finish();
  LoopEnding ending;
  ending.hash = parameter_hash(*program.state.replicas[0]);
  ending.step = program.state.step;
  if (history.train) ending.train = history.train->losses;
  if (history.validation) ending.validation = history.validation->losses;
  ending.kept = program.state.kept;
  ending.drawn = torch::rand({1}).item<double>();
  ending.reason = history.reason;
  return ending;
}

/// 14 examples in batches of 4: four steps an epoch, the last one short.
inline TrainOptions loop_options(const std::filesystem::path& dir = {}) {
  TrainOptions options;
  options.model_dir = dir.string();
  options.epochs = 3;
  options.save_checkpoints_steps = 2;
  options.save_summary_steps = 0;
  options.batch_size = 4;
  options.progress = false;
  options.log_every = 0;
  return options;
}

template <class SomeHooks>
LoopEnding run_loop(const SomeHooks& hooks, const TrainOptions& options, const Loop& loop) {
  Program program(hooks, options);
  return run_loop(program, loop);
}

/// Crashes the program at its every moment, starts it again, and compares the ends. Returns how
/// many moments it has.
inline int check_resumes(const Loop& loop) {
  const StatefulHooks hooks("Adam");
  const TempDir whole;
  const LoopEnding expected = run_loop(hooks, loop_options(whole.path()), loop);
  for (int moment = 0;; ++moment) {
    CAPTURE(moment);
    const TempDir dir;
    Program program(hooks, loop_options(dir.path()));
    program.moments_left = moment;
    try {
      (void)run_loop(program, loop);
      return moment;
    } catch (const Crash&) {
    }
    const LoopEnding resumed = run_loop(hooks, loop_options(dir.path()), loop);
    CHECK(resumed == expected);
  }
}

}  // namespace troupe::testing
