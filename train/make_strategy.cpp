#include "train/make_strategy.h"

#include "core/error.h"
#include "core/log.h"
#include "distributed/worker_group.h"
#include "servers/parameter_server.h"
#include "strategies/device.h"
#include "strategies/engines/engine.h"
#include "strategies/multi_worker.h"
#include "strategies/one_process.h"

namespace troupe {

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options) {
  (void)detail::choose_engine(options);  // refused before anything starts
  const int workers = options.cluster.world_size();
  const int replicas = options.local_replicas();
  const char* const fitting = !options.cluster.servers.empty() ? "parameter-server"
                              : workers > 1                    ? "multi-worker"
                              : replicas > 1                   ? "mirrored"
                                                               : "one-device";
  const std::string name = options.name == "auto" ? fitting : options.name;
  const int threads =
      configure_compute_threads(options.threads, workers_here(options.cluster), replicas);
  std::string devices = options.device;
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    devices = i == 0 ? options.devices[0] : text(devices, ",", options.devices[i]);
  }
  log_info("strategy ", name, ", ", workers, workers == 1 ? " worker" : " workers", " (",
           options.cluster.origin, "), ", replicas, replicas == 1 ? " replica" : " replicas",
           workers == 1 ? "" : " each", ", device ", devices, ", compute threads ", threads,
           replicas == 1 ? "" : " each");
  if (name == "parameter-server") return make_parameter_server(options);
  if (!options.cluster.servers.empty()) {
    throw ConfigError(text("--strategy ", name, " was requested, but ", options.cluster.origin,
                           " lists parameter servers."),
                      "use --strategy parameter-server, or leave the servers out.");
  }
  if (name == "one-device") return make_one_device(options);
  if (name == "mirrored") return make_mirrored(options);
  if (name == "central-storage") return make_central_storage(options);
  if (name == "multi-worker") return make_multi_worker(options);
  throw ConfigError("--strategy " + name + " is not in this version.",
                    "use auto, one-device, mirrored, central-storage, multi-worker or "
                    "parameter-server.");
}

}  // namespace troupe
