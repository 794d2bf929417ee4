#include "troupe/strategies/kinds/make_strategy.h"

#include <chrono>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/machine.h"
#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/text.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/kinds/multi_worker.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/parameter_server/parameter_server.h"

namespace troupe {

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options) {
  options.validate();
  (void)detail::choose_engine(options);  // refused before anything starts
  const int workers = options.cluster.world_size();
  const int replicas = options.local_replicas();
  const StrategyKind kind = options.chosen_kind();
  // Servers that the launcher starts beside the workers come out of its OMP_NUM_THREADS.
  const int share = compute_threads(inspect_cores().usable, workers_here(options.cluster), 0);
  // The launcher's share depends on the number of workers, and another number of threads rounds
  // differently.
  const int wanted = options.threads == 0 && options.virtual_replicas > 0 ? 1 : options.threads;
  const int threads = configure_compute_threads(wanted, share, replicas);
  if (workers == 1 && wanted == 0 && threads > 1) {
    // As many as the machine has cores, whatever it is busy with: another number rounds
    // differently.
    const std::string crowd = crowded_threads(threads * replicas, inspect_cores(),
                                              cores_taken(std::chrono::milliseconds(60)));
    if (!crowd.empty()) log_warning(crowd, ": --threads 1 is faster here");
  }
  const std::string devices = options.devices.empty() ? options.device : join(options.devices, ",");
  log(options.cluster.rank == 0 ? LogLevel::info : LogLevel::debug,
      text("strategy ", name_of(kind), ", ", workers, workers == 1 ? " worker" : " workers", " (",
           options.cluster.origin, "), ", replicas, replicas == 1 ? " replica" : " replicas",
           workers == 1 ? "" : " each", ", device ", devices, ", compute threads ", threads,
           replicas == 1 ? "" : " each",
           options.virtual_replicas == 0 ? ""
                                         : text(", virtual replicas ", options.virtual_replicas)));
  if (kind == StrategyKind::parameter_server) return make_parameter_server(options);
  if (kind == StrategyKind::one_device) return make_one_device(options);
  if (kind == StrategyKind::mirrored) return make_mirrored(options);
  if (kind == StrategyKind::central_storage) return make_central_storage(options);
  return make_multi_worker(options);
}

}  // namespace troupe
