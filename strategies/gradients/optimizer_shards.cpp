#include "troupe/strategies/gradients/optimizer_shards.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <typeinfo>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/hooks/replica.h"

namespace troupe::detail {
namespace {

/// In the order of the groups, which may list a tensor twice.
std::vector<NamedTensor> listed_by(torch::optim::Optimizer& optimizer) {
  std::vector<NamedTensor> all;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) all.emplace_back("", parameter);
  }
  return all;
}

/// What part of the parameters' bytes the fullest replica has, in percent.
double fullest_part(const std::vector<NamedTensor>& parameters, int shards) {
  const std::vector<int> owners = owners_of(parameters, shards);
  std::vector<double> loads(static_cast<std::size_t>(shards));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    loads[static_cast<std::size_t>(owners[i])] +=
        static_cast<double>(parameters[i].second.nbytes());
  }
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  return 100 * *std::max_element(loads.begin(), loads.end()) / std::max(all, 1.0);
}

void check_kind(torch::optim::Optimizer& optimizer, const std::string& name) {
  if (find_kind(optimizer) != nullptr) return;
  throw ConfigError(
      text("--shard-optimizer is given, but optimiser \"", name, "\" is a ",
           c10::demangle(typeid(optimizer).name()),
           ", and no such kind is registered: it may need all parameters for the step of one."),
      "use SGD, Adam, AdamW, RMSprop or Adagrad; make an optimiser known by "
      "troupe::register_optimizer (docs/optimizers.md), if it steps parameters by themselves; or "
      "leave --shard-optimizer out.");
}

}  // namespace

std::vector<int> owners_of(const std::vector<NamedTensor>& parameters, int shards) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return parameters[a].second.nbytes() > parameters[b].second.nbytes();
  });
  std::vector<std::int64_t> loads(static_cast<std::size_t>(shards));
  std::vector<int> owners(parameters.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += static_cast<std::int64_t>(parameters[i].second.nbytes());
    owners[i] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

nlohmann::json description_of_shard(nlohmann::json description, torch::optim::Optimizer& optimizer,
                                    int shard, int shards) {
  const std::vector<NamedTensor> listed = listed_by(optimizer);
  const std::vector<NamedTensor> parameters = each_once(listed);
  const PlaceOfTensor places = place_of_tensor(parameters);
  const std::vector<int> owners = owners_of(parameters, shards);
  nlohmann::json& counters = description.at("counters");
  std::size_t i = 0;
  for (const auto& group : description.at("groups")) {
    for (const auto& name : group.at("parameters")) {
      if (i == listed.size()) break;  // another number is refused where the optimiser is restored
      const std::size_t place = places.at(listed[i++].second.unsafeGetTensorImpl());
      if (owners[place] != shard) counters.erase(name.get<std::string>());
    }
  }
  return description;
}

void check_sharding(Replica& replica, int shards, bool logs) {
  for (const std::string& name : replica.optimizer_names()) {
    torch::optim::Optimizer& optimizer = replica.optimizer(name);
    check_kind(optimizer, name);
    if (!logs) continue;
    log_info("the state of optimiser \"", name, "\" is divided among ", shards,
             " replicas: that of at most ",
             std::lround(fullest_part(each_once(listed_by(optimizer)), shards)),
             " % of its parameters is on one");
  }
}

}  // namespace troupe::detail
