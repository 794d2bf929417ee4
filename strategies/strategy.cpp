#include "troupe/strategies/strategy.h"

#include <torch/types.h>

#include <algorithm>

#include "troupe/core/text.h"
#include "troupe/data/data_digest.h"
#include "troupe/data/shard_plan.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/hooks/make_datasets.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/sharing_failure.h"
#include "troupe/strategies/tensor_sums.h"
#include "troupe/strategies/wait_meter.h"

namespace troupe {
namespace {

const char* const kFix = "return losses of the same names on every replica in every step.";

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
                           "than \"", join_keys(total), "\", those of replica 0."),
                      kFix);
  }
  return total;
}

}  // namespace

void detail::check_between_steps(const char* call) {
  if (running_replica() == nullptr) return;
  throw ConfigError(text("strategy.", call,
                         "() was called inside a step of a replica: it is for "
                         "workers, between their steps."),
                    "in a step, replica.all_gather(rows) has the rows of all replicas, to be added "
                    "up there; or call it after strategy.run() has returned.");
}

double Pace::waited_seconds() const { return waits_ ? waits_->seconds() : 0; }

Strategy::Strategy(const char* name, const GroupView& view)
    : waits_(std::make_shared<detail::WaitMeter>()),
      name_(name),
      lockstep_(std::make_shared<Pace>()) {
  move_to(view);
}

void Strategy::move_to(const GroupView& view) {
  view_ = view;
  *lockstep_ = Pace(view.tasks, waits_);  // whoever holds it sees the new group
  *hosted_ = view.hosting
                 ? detail::ReplicaRange{view.hosting->block.begin, view.hosting->block.size()}
                 : detail::ReplicaRange{};
}

DistributedSplits Strategy::distribute(const Splits& splits, const BatchPlan& plan) {
  LoaderOptions loader = plan.loader;
  loader.pin_memory = std::any_of(view_.devices.begin(), view_.devices.end(),
                                  [](const c10::Device& device) { return device.is_cuda(); });
  const auto share = [&](const std::shared_ptr<const Dataset>& dataset, std::int64_t batches,
                         int workers, const Sampler& sampler, bool drop_last) {
    std::optional<DistributedDataset> data;
    if (dataset == nullptr) return data;
    const bool is_virtual = virtual_replicas() > 0;
    const int replicas = is_virtual ? virtual_replicas() : workers * local_replicas();
    const ShardPlan shards({dataset->size(), plan.global_batch * batches, replicas, plan.seed,
                            sampler, batches, drop_last});
    const int first = workers == 1 ? 0 : rank() * local_replicas();
    data.emplace(dataset, shards,
                 is_virtual ? hosted_
                            : std::make_shared<detail::ReplicaRange>(
                                  detail::ReplicaRange{first, local_replicas()}),
                 loader);
    return data;
  };
  return detail::sharing_failure(*this, [&] {
    check_same_classes(splits);
    if (splits.unit.empty() || splits.unit.size() > kMostUnitBytes) {
      throw ConfigError(
          text("create_datasets calls a pass over the training data \"", splits.unit, "\"."),
          text("give Splits::unit a word of at most ", kMostUnitBytes, " bytes."));
    }
    // Where replicas make updates apart, a step of the plan is one batch for each worker, which
    // takes it in its own time. Who coordinates alone evaluates alone.
    const int batches = world_size() * local_replicas() / view_.replicas_in_sync();
    const int voices = pace().voices();
    DistributedSplits data = {
        share(splits.train, batches, world_size(), splits.sampler, plan.drop_last),
        share(splits.validation, 1, voices, sequential(), false),
        share(splits.test, 1, voices, sequential(), false)};
    const std::string digest =
        data_digest(splits, data.train ? data.train->order_signature() : "", plan.seed);
    // All workers are to read the same examples.
    const std::vector<std::string> all = gather(digest);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (const auto found = data_difference(all[rank], all[0]))
        detail::fail_alike(*this, detail::other_data(text("rank ", rank), *found));
    }
    if (data.train) {
      data.train->set_digest(digest);
      data.train->set_unit(splits.unit);
    }
    return data;
  });
}

DistributedSplits Strategy::distribute(const Hooks& hooks, const BatchPlan& plan) {
  const Splits splits =
      detail::sharing_failure(*this, [&] { return detail::make_datasets(hooks, plan.seed); });
  return distribute(splits, plan);
}

void Strategy::synchronize_buffers(TrainState& state) {
  const int workers = pace().voices();
  if (virtual_replicas() > 0 || (workers == 1 && state.replicas.size() == 1)) return;
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<NamedTensor>> buffers;  // by replica
  for (const auto& replica : state.replicas) buffers.push_back(replica->buffers());
  const auto replicas = static_cast<double>(buffers.size()) * workers;
  std::vector<NamedTensor> firsts;  // the first replica's, which all are to have
  for (std::size_t k = 0; k < buffers.front().size(); ++k) {
    const at::Tensor& first = buffers.front()[k].second;
    if (!first.is_floating_point()) {
      firsts.push_back(buffers.front()[k]);
      continue;
    }
    std::vector<at::Tensor> values;
    for (const auto& own : buffers) {
      values.push_back(torch::empty(first.sizes(), torch::kFloat64).copy_(own[k].second));
    }
    const at::Tensor total = detail::sum_in_rank_order(std::move(values));
    sum({total.data_ptr<double>(), static_cast<std::size_t>(total.numel())});
    first.copy_(total / replicas);
  }
  detail::change_on_host(firsts, [this](Span<std::byte> bytes) { broadcast(bytes); });
  for (const auto& own : buffers) detail::copy_values(buffers.front(), own);
}

LossValues Strategy::reduce(const std::vector<StepResult>& results) {
  LossValues total = detail::sharing_failure(*this, [&] { return add_by_name(results); });
  std::vector<double> nothing_more;
  detail::sum_by_name(*this, total, nothing_more);
  return total;
}

namespace detail {

ConfigError other_data(const std::string& who, const DataDifference& difference) {
  return ConfigError(text(who, " has other data than the chief: ", difference.what, " is ",
                          difference.mine, ", the chief's is ", difference.theirs, "."),
                     "give every worker the same data in the same order: compare --data-dir on "
                     "both machines, sort what is listed from a folder, and draw a split in "
                     "create_datasets from LibTorch's generator or a seed.");
}

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
                                         join_keys(named) + "\", those of this one.",
                                     kFix));
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i]->second = values[i];
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(sorted.size()), more.size(),
              more.begin());
}

}  // namespace detail
}  // namespace troupe
