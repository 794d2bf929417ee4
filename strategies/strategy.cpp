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
  const std::vector<std::string> sizes = gather(sizes_of(splits));
  for (std::size_t rank = 1; rank < sizes.size(); ++rank) {
    if (sizes[rank] == sizes[0]) continue;
    detail::fail_alike(
        *this,
        ConfigError(
            text("rank ", rank, " has ", sizes[rank],
                 " training, validation and test examples, the chief ", sizes[0], " (-1: none)."),
            "give every worker the same data: compare --data-dir on both machines."));
  }
  const auto share = [&](const std::shared_ptr<const Dataset>& dataset, std::int64_t batch,
                         int workers, Shuffle shuffle) {
    std::optional<DistributedDataset> data;
    if (dataset == nullptr) return data;
    if (virtual_replicas() > 0) {
      const ShardPlan plan_of_all({dataset->size(), batch, virtual_replicas(), plan.seed, shuffle});
      data.emplace(dataset, plan_of_all, hosted_);
      return data;
    }
    const int local = local_replicas();
    const ShardPlan shards({dataset->size(), batch, workers * local, plan.seed, shuffle});
    data.emplace(dataset, shards, workers == 1 ? 0 : rank() * local, local);
    return data;
  };
  // Where replicas make updates apart, a step of the plan is one batch for each worker, which takes
  // it in its own time. Who coordinates alone evaluates alone.
  const int batches = world_size() * local_replicas() / replicas_in_sync();
  const int voices = pace().voices();
  return {share(splits.train, plan.global_batch * batches, world_size(), Shuffle::yes),
          share(splits.validation, plan.global_batch, voices, Shuffle::no),
          share(splits.test, plan.global_batch, voices, Shuffle::no)};
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
