// Progress: where a run stands. The terminal's block shows it, a worker sends it to its launcher,
// and /metrics exports it. Filled by one callback (train/callbacks/progress_reporter), read by all
// of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// Names and values in the hooks' order.
using NamedValues = std::vector<std::pair<std::string, double>>;

/// As of the last step of one worker. Fields that are not known yet are 0, empty or unset.
struct Progress {
  enum class Activity { starting, training, validating, ended };
  static constexpr const char* kActivities[] = {"starting", "training", "validating", "ended"};

  int rank = 0;  // of the worker
  Activity activity = Activity::starting;
  std::int64_t step = 0;           // optimiser updates so far, over the whole training
  std::int64_t first_step = 0;     // where this process started: 0, or where it resumed
  std::int64_t total_steps = 0;    // 0: unknown until a stream ends
  std::int64_t epoch = 0;          // from 0
  std::string unit = "epoch";      // what a pass over the data is called
  double steps_per_second = 0;     // over the last seconds
  double examples_per_second = 0;  // over all workers
  std::int64_t examples = 0;       // over all workers, since first_step
  NamedValues losses;              // of the last logged step
  std::optional<double> learning_rate;
  NamedValues validation;            // the last one
  std::int64_t validation_step = 0;  // after which it took place
  NamedValues waiting;               // by task: the share of the time; empty: it is not known
};

/// One line of JSON, without a newline, at most kMostProgressBytes; from a worker to its launcher.
[[nodiscard]] std::string to_line(const Progress& progress);
constexpr std::size_t kMostProgressBytes = 4096;  // PIPE_BUF: written whole or not at all
/// The inverse; unset: the bytes are not such a line, or a number in it is not possible (a negative
/// step, a rank beyond kMostRanks). Names may hold any UTF-8.
[[nodiscard]] std::optional<Progress> progress_from_line(std::string_view line);
constexpr int kMostRanks = 1 << 20;

/// What is done with the progress of a run, such as drawing it. Called on one thread; returns soon.
using ProgressSink = std::function<void(const Progress&)>;

}  // namespace troupe
