// DryRun: --dry-run. What a training would do, as far as its first step shows it: the same verbs on
// a state that is thrown away, with nothing saved. Says what it checked, a line each, in the log.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/options/options.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe {

class DryRun {
 public:
  /// `hooks` and `options` outlive it; `feature_names` as EstimatorOptions::feature_names.
  DryRun(const Hooks& hooks, const Options& options, std::vector<std::string> feature_names)
      : hooks_(hooks), options_(options), feature_names_(std::move(feature_names)) {}

  /// Meets the other workers; makes models and data; restores what training would resume from;
  /// takes one step, and validates, tests and predicts one batch; then looks whether the disk has
  /// room for the checkpoints to come, whose size is known by then. Leaves no file.
  /// `callbacks`: training's; of these only the learning rate is used.
  /// Collective: yes.  Throws: what training would.
  void run(const Callbacks& callbacks);

 private:
  /// Says in the log what failed, as the error itself may not know the hook that it is from.
  template <class Body>
  void check(const std::string& what, Body&& body);
  /// On the chief.
  template <class... Parts>
  void say(const Parts&... parts) const;

  void check_directories() const;
  void make_data();
  void resume();
  void take_step(const Callbacks& callbacks);
  void evaluate_splits();
  void predict_one();
  void check_disk();
  [[nodiscard]] const TrainOptions& train() const { return options_.train; }
  /// As training itself gets them.
  [[nodiscard]] TrainOptions train_options() const {
    TrainOptions real = options_.train;
    real.dry_run = false;
    return real;
  }

  const Hooks& hooks_;
  const Options& options_;
  const std::vector<std::string> feature_names_;
  std::unique_ptr<Strategy> strategy_;
  TrainState state_;
  Splits splits_;
  DistributedSplits data_;
  DataIdentity identity_;
  std::int64_t first_step_ = 0;  // the step that training would start from
};

}  // namespace troupe
