// Options of train/: how long to train and what to say about it. Plain data, free of LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

struct TrainOptions {
  std::optional<std::int64_t> epochs;     // unset: 1, or as many as max_steps needs
  std::optional<std::int64_t> max_steps;  // absolute; whichever of the two ends first
  std::int64_t batch_size = 64;           // the global batch: all replicas' examples in a step
  std::uint64_t seed = 1;
  double learning_rate = 0.03;
  double momentum = 0.9;
  double weight_decay = 0;
  std::int64_t log_every = 100;  // steps between log lines; 0: none
  std::string metrics_file;      // one JSON object a line per logged step; empty: none
  bool json_summary = false;     // the chief's last stdout line is one JSON object
  bool progress = true;          // a progress bar, on a terminal only

  std::string model_dir;  // where checkpoints are; empty: nothing is saved, nothing resumed
  // One of the two; neither: every 600 seconds. The chief's clock decides about seconds.
  std::optional<std::int64_t> save_checkpoints_steps;
  std::optional<double> save_checkpoints_secs;
  std::int64_t keep_checkpoint_max = 5;           // the newest N; 0: all
  double keep_checkpoint_every_n_hours = 10'000;  // and one of every N hours for ever
  std::uint64_t generation = 0;  // which start of the job; a later one takes over a model_dir
  std::string resume = "auto";   // auto: if there is a checkpoint; must: or fail; never: or fail
};

}  // namespace troupe
