// A run's progress in Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). docs/status.md lists the metrics.
#pragma once

#include <string>

#include "troupe/report/progress.h"

namespace troupe::detail {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

/// `workers` take part. What is not known yet has no line.
[[nodiscard]] std::string metrics_text(const Progress& progress, int workers);

}  // namespace troupe::detail
