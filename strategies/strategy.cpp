#include "strategies/strategy.h"

#include <torch/types.h>

#include <algorithm>

#include "core/text.h"
#include "distributed/collectives/call.h"
#include "strategies/replicas/local_replicas.h"

namespace troupe {
namespace {

std::int64_t size_of(const std::shared_ptr<const Dataset>& dataset) {
  return dataset == nullptr ? -1 : dataset->size();
}

/// "60000 5000 10000"; -1 where there is no such split.
std::string sizes_of(const Splits& splits) {
  return text(size_of(splits.train), " ", size_of(splits.validation), " ", size_of(splits.test));
}

/// Throws: ConfigError on all workers if they would read other examples.
// TODO(T-018): beside parameter servers a worker gathers only what is its own.
void check_alike(Strategy& strategy, const Splits& splits, const DistributedSplits& data) {
  const std::string sizes = sizes_of(splits);
  const std::string order = data.train ? data.train->order_signature() : "";
  const std::vector<std::string> all = strategy.gather(sizes + "\n" + order);
  const auto part = [&](std::size_t rank, bool second) {
    const std::size_t end = all[rank].find('\n');
    return second ? all[rank].substr(end + 1) : all[rank].substr(0, end);
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (part(rank, false) != part(0, false)) {
      detail::fail_alike(
          strategy,
          ConfigError(text("rank ", rank, " has ", part(rank, false),
                           " training, validation and test examples, the chief ", part(0, false),
                           " (-1: none)."),
                      "give every worker the same data: compare --data-dir on both machines."));
    }
    if (part(rank, true) != part(0, true)) {
      detail::fail_alike(
          strategy,
          ConfigError(text("rank ", rank, " reads the training examples in the order of \"",
                           part(rank, true), "\", the chief in that of \"", part(0, true), "\"."),
                      "make the sampler alike on every worker: from the same weights or lengths, "
                      "in the same order."));
    }
  }
}

const char* const kFix = "return losses of the same names on every replica in every step.";

std::string names_of(const LossValues& values) {
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// The losses of a worker's replicas, added by name, in the first replica's order.
/// Throws: ConfigError where a replica lacks a loss that another one has.
LossValues add_by_name(const std::vector<StepResult>& results) {
  LossValues total;
  for (const auto& [name, loss] : results.front().losses) total.emplace_back(name, 0.0);
  for (std::size_t replica = 0; replica < results.size(); ++replica) {
    bool same = results[replica].losses.size() == total.size();
    for (const auto& [name, loss] : results[replica].losses) {
      const auto known = std::find_if(total.begin(), total.end(),
                                      [&key = name](const auto& sum) { return sum.first == key; });
      same = same && known != total.end();
      if (same) known->second += loss.item<double>();  // the host waits for the device here
    }
    if (same) continue;
    throw ConfigError(text("a step of replica ", replica, " of this worker returned other losses ",
                           "than \"", names_of(total), "\", those of replica 0."),
                      kFix);
  }
  return total;
}

}  // namespace

void Strategy::stand(const Standing& standing) {
  standing_ = standing;
  lockstep_ = Pace(standing.world_size);
  *hosted_ = {standing.first_hosted, standing.hosted};
}

DistributedSplits Strategy::distribute(const Splits& splits, const BatchPlan& plan) {
  const auto share = [&](const std::shared_ptr<const Dataset>& dataset, std::int64_t batches,
                         int workers, const Sampler& sampler) {
    std::optional<DistributedDataset> data;
    if (dataset == nullptr) return data;
    const bool is_virtual = virtual_replicas() > 0;
    const int replicas = is_virtual ? virtual_replicas() : workers * local_replicas();
    const ShardPlan shards(
        {dataset->size(), plan.global_batch * batches, replicas, plan.seed, sampler, batches});
    const int first = workers == 1 ? 0 : rank() * local_replicas();
    data.emplace(dataset, shards,
                 is_virtual ? hosted_
                            : std::make_shared<ReplicaRange>(ReplicaRange{first, local_replicas()}),
                 plan.loader);
    return data;
  };
  return detail::sharing_failure(*this, [&] {
    // Where replicas make updates apart, a step of the plan is one batch for each worker, which
    // takes it in its own time. Who coordinates alone evaluates alone.
    const int batches = world_size() * local_replicas() / replicas_in_sync();
    const int voices = pace().voices();
    DistributedSplits data = {share(splits.train, batches, world_size(), splits.sampler),
                              share(splits.validation, 1, voices, sequential()),
                              share(splits.test, 1, voices, sequential())};
    check_alike(*this, splits, data);
    return data;
  });
}

void Strategy::synchronize_buffers(TrainState& state) {
  if (virtual_replicas() > 0 || state.replicas.size() == 1) return;
  detail::make_buffers_equal(state, nullptr);
}

LossValues Strategy::reduce(const std::vector<StepResult>& results) {
  LossValues total = detail::sharing_failure(*this, [&] { return add_by_name(results); });
  std::vector<double> nothing_more;
  detail::sum_by_name(*this, total, nothing_more);
  return total;
}

namespace detail {

void sum_by_name(Strategy& strategy, LossValues& named, std::vector<double>& more) {
  if (strategy.virtual_replicas() > 0) return;
  std::vector<std::pair<std::string, double>*> sorted;
  for (auto& value : named) sorted.push_back(&value);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  std::string names;
  for (const auto* value : sorted) names += value->first + "\n";
  const double mine = label_of(names);  // a double holds it exactly, and so many workers' sum of it
  std::vector<double> values;
  for (const auto* value : sorted) values.push_back(value->second);
  values.insert(values.end(), more.begin(), more.end());
  values.push_back(mine);
  strategy.sum(values);
  if (values.back() != mine * strategy.pace().voices()) {
    fail_alike(strategy, ConfigError("the steps of another worker returned other losses than \"" +
                                         names_of(named) + "\", those of this one.",
                                     kFix));
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i]->second = values[i];
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(sorted.size()), more.size(),
              more.begin());
}

}  // namespace detail
}  // namespace troupe
