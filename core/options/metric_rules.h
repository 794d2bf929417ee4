// Rules about metrics: by which one the best is chosen, and when training ends early. As text they
// are what flags take: "accuracy", "accuracy:max"; "loss:500", "accuracy:max:500", "accuracy=0.98".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Which of two values is better; automatic: as the metric says (Metric::better); of losses, the
/// smaller one.
enum class BestMode { automatic, min, max };

struct MetricRule {
  std::string metric;  // or a loss
  BestMode mode = BestMode::automatic;
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
