// Rules about metrics: by which one the best is chosen, and when training ends early. As text they
// are what flags take: "accuracy", "accuracy:max"; "loss:500", "accuracy:max:500", "accuracy=0.98".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Which of two values is better. Losses: the lower one.
enum class Better { unknown, lower, higher };

struct MetricRule {
  std::string metric;               // or a loss
  Better better = Better::unknown;  // unknown: as the metric says (Metric::better)
};

/// When training ends early: where the value has not become better for `steps`, or has reached
/// `value`. One of the two.
struct StopRule {
  MetricRule by;
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<double> value = std::nullopt;
};

/// METRIC, METRIC:min or METRIC:max. Unset: it is none of these.
[[nodiscard]] std::optional<MetricRule> parse_metric_rule(const std::string& written);
[[nodiscard]] std::string to_text(const MetricRule& rule);

/// A metric's rule and :STEPS, of at least 1, or =VALUE, which is finite. Unset: it is neither.
[[nodiscard]] std::optional<StopRule> parse_stop_rule(const std::string& written);
[[nodiscard]] std::string to_text(const StopRule& rule);

}  // namespace troupe
