// RunConfig: where a run keeps its files, and how often it saves, logs and summarises. Plain data,
// free of LibTorch. The fields are those of Estimator's RunConfig that mean something here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troupe {

struct RunConfig {
  std::string model_dir;  // where checkpoints are; empty: nothing is saved, nothing resumed
  std::uint64_t seed = 1;
  std::int64_t save_summary_steps = 100;  // steps between training summaries; 0: none
  // One of the two; neither: every 600 seconds; 0: never. The chief's clock decides about seconds.
  std::optional<std::int64_t> save_checkpoints_steps;
  std::optional<double> save_checkpoints_secs;
  std::int64_t keep_checkpoint_max = 5;           // the newest N; 0: all
  double keep_checkpoint_every_n_hours = 10'000;  // and one of every N hours for ever
  std::int64_t log_every = 100;                   // steps between log lines; 0: none
  std::uint64_t generation = 0;  // which start of the job; a later one takes over a model_dir

  /// Throws: ConfigError that names the field and its limits.
  void validate() const;
  /// A changed copy, checked: `config.replace([](RunConfig& c) { c.save_checkpoints_steps = 100;
  /// })`. Of the two cadences of checkpoints, setting one clears the other; setting both is an
  /// error.
  [[nodiscard]] RunConfig replace(const std::function<void(RunConfig&)>& change) const;
};

/// How often checkpoints are saved, the defaults filled in: one of the two, or neither (never).
struct CheckpointCadence {
  std::optional<std::int64_t> steps;
  std::optional<double> seconds;

  [[nodiscard]] bool never() const { return !steps && !seconds; }
};
[[nodiscard]] CheckpointCadence checkpoint_cadence(const RunConfig& config);

}  // namespace troupe
