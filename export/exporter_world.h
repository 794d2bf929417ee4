// Troupe's exporters with another clock: for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/export/exporter.h"
#include "troupe/train/evaluation/evaluation_job.h"

namespace troupe {

/// Seconds since 1970, by the system's clock.
using WallSeconds = std::function<std::int64_t()>;
[[nodiscard]] std::int64_t wall_seconds();

/// An exporter's access to the outside world, which tests replace.
struct ExporterWorld {
  WallSeconds now = &wall_seconds;
  Sleep sleep = &sleep_for;
};

[[nodiscard]] std::shared_ptr<Exporter> make_latest_exporter(std::string name,
                                                             std::optional<int> keep,
                                                             ExporterWorld world);
[[nodiscard]] std::shared_ptr<Exporter> make_final_exporter(std::string name, ExporterWorld world);
[[nodiscard]] std::shared_ptr<Exporter> make_best_exporter(std::string name, IsBetter is_better,
                                                           std::optional<int> keep,
                                                           ExporterWorld world);

}  // namespace troupe
