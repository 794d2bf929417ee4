#include "strategies/make_strategy.h"

#include "core/error.h"
#include "core/log.h"
#include "strategies/compute_threads.h"
#include "strategies/multi_worker.h"
#include "strategies/one_device.h"

namespace troupe {
namespace {

/// Workers of the group on this machine, as far as the addresses tell: those that name the host
/// this worker names, and those without an address, which a launcher started beside it.
int workers_on_this_host(const Cluster& cluster) {
  const auto& own = cluster.members[static_cast<std::size_t>(cluster.rank)].address;
  int count = 0;
  for (const Member& member : cluster.members) {
    const bool same = !own || !member.address || member.address->host == own->host;
    count += same ? 1 : 0;
  }
  return count;
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options) {
  const bool alone = options.cluster.world_size() == 1;
  const std::string name =
      options.name == "auto" ? (alone ? "one-device" : "multi-worker") : options.name;
  const int threads =
      configure_compute_threads(options.threads, workers_on_this_host(options.cluster));
  log_info("strategy ", name, ", ", options.cluster.world_size(), alone ? " worker" : " workers",
           " (", options.cluster.origin, "), device ", options.device, ", compute threads ",
           threads);
  if (name == "one-device") return make_one_device(options);
  if (name == "multi-worker") return make_multi_worker(options);
  throw ConfigError("--strategy " + name + " is not in this version.",
                    "use auto, one-device or multi-worker.");
}

}  // namespace troupe
