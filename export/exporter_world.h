// What Troupe's exporters see of the world around them, which tests replace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/export/exporter.h"

namespace troupe {

/// Seconds since 1970, by the system's clock.
using WallSeconds = std::function<std::int64_t()>;
[[nodiscard]] std::int64_t wall_seconds();

struct ExporterWorld {
  WallSeconds now = &wall_seconds;
  Sleep sleep = &sleep_for;
};

// As those of export/exporter.h.
[[nodiscard]] std::shared_ptr<Exporter> make_latest_exporter(std::string name,
                                                             std::optional<int> keep,
                                                             ExporterWorld world);
[[nodiscard]] std::shared_ptr<Exporter> make_final_exporter(std::string name, ExporterWorld world);
[[nodiscard]] std::shared_ptr<Exporter> make_best_exporter(
    std::string name, std::function<bool(const Evaluation&, const Evaluation&)> is_better,
    std::optional<int> keep, ExporterWorld world);

}  // namespace troupe
