// What the exporters share, and what tests put in the place of clock, waiting and event files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/error.h"
#include "estimator/export/export_directory.h"
#include "estimator/export/exporter.h"
#include "estimator/roles/sleeper.h"
#include "summaries/summary_reader.h"

namespace troupe::detail {

/// Reads the scalars below an evaluation's directory.
using HistoryReader = std::function<ScalarHistory(const std::string& directory)>;

/// What an exporter asks of the world.
struct ExporterWorld {
  WallSeconds now = &wall_seconds;
  std::shared_ptr<Sleeper> sleeper = std::make_shared<ThreadSleeper>();
  HistoryReader read_history = &read_scalars;
};

[[nodiscard]] std::shared_ptr<Exporter> make_latest(std::string name, std::optional<int> keep,
                                                    ExporterWorld world);
[[nodiscard]] std::shared_ptr<Exporter> make_final(std::string name, ExporterWorld world);
[[nodiscard]] std::shared_ptr<Exporter> make_best(std::string name, IsBetter is_better,
                                                  std::optional<int> keep, ExporterWorld world);

/// Throws: ConfigError where `name` is no file name, or `keep` not above 0.
void check_exporter(const std::string& name, std::optional<int> keep);

/// Publishes the offer's model and says so in the log.
[[nodiscard]] std::string publish_offer(const std::string& exporter, const ExportOffer& offer,
                                        const ExporterWorld& world);

/// Calls `act`; what the file system refuses it, which is no checkpoint here, is an
/// EnvironmentError.
template <class Act>
auto on_files(const Act& act) {
  try {
    return act();
  } catch (const CheckpointError& error) {
    throw EnvironmentError(error.cause(), error.fix());
  }
}

}  // namespace troupe::detail
