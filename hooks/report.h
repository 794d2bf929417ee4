// Report and History: the results of one pass over a data set, over all workers, and of training.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "troupe/hooks/phase.h"
#include "troupe/hooks/values.h"

namespace troupe {

/// One pass over a data set.
struct Report {
  Phase phase = Phase::test;
  std::int64_t examples = 0;  // each counted once
  LossValues losses;          // means over examples, or what has weights
  LossValues weights;         // of a loss whose weights do not add up to `examples`: their sum
  std::vector<MetricValue> metrics;
  double seconds = 0;
};

/// "validation: examples = 5000, loss = 0.0712, accuracy = 0.9795"
[[nodiscard]] std::string to_line(const Report& report);

/// Losses and metrics under their names, metrics' sums beside them:
/// {"loss": 0.04, "accuracy": 0.98, "correct": 9800, "examples": 10000}. A loss that is no mean
/// over the report's examples has what it was divided by: "loss/weight". A sum whose name is taken
/// is preceded by its metric's: "top5/correct". So is a metric's own "examples", unless it is the
/// report's: an accuracy over tokens has "accuracy/examples". Whole numbers are written as such,
/// infinity and NaN, which JSON lacks, as null.
[[nodiscard]] nlohmann::ordered_json to_json(const Report& report);

namespace detail {
/// {"name": value}; null where it is not finite.
[[nodiscard]] nlohmann::ordered_json json_of(const LossValues& values);
}  // namespace detail

/// The result of a training run.
/// Equal on every worker except for the seconds and the reason. If workers go at their own pace
/// (parameter servers), everything is this worker's own, and the chief alone validates.
struct History {
  std::int64_t epochs = 0;           // complete ones
  std::int64_t steps = 0;            // of this run
  std::int64_t examples = 0;         // of this run, over all workers
  double seconds = 0;                // of training; validation not counted
  std::optional<Report> train;       // of the last epoch, complete or not
  std::optional<Report> validation;  // the last one
  std::string reason;                // why it ended: "max_steps 600 is reached"
  LossValues waiting = {};           // by task, as RunControl::waiting()
  bool on_chief = false;             // this worker was the chief when training ended
};

}  // namespace troupe
