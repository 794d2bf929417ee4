// RunSnapshot, the way out: from the workers' memory to the chief's copy.
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "troupe/data/shard_plan.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/tensor_file.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/checkpoint/random_streams.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe {
namespace detail {

const at::Tensor& find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& t) { return t.first == name; });
  if (found == tensors.end()) throw does_not_fit("it has no \"" + name + "\"");
  return found->second;
}

std::vector<c10::Device> devices_of(const TrainState& state) {
  std::vector<c10::Device> devices;
  for (const auto& replica : state.replicas) devices.push_back(replica->place().device);
  return devices;
}

nlohmann::json arithmetic() {
  const Arithmetic here = arithmetic_here();
  return {{"libtorch", here.libtorch},
          {"cpu_capability", here.cpu_capability},
          {"blas", here.blas},
          {"compute_threads", here.compute_threads}};
}

}  // namespace detail

namespace {

using namespace detail;  // NOLINT: the other half of the same unit
using nlohmann::json;

at::Tensor doubles(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

at::Tensor running_losses(const TrainState& state) {
  std::vector<double> losses;
  for (const detail::LossSum& loss : state.epoch_loss.sums()) losses.push_back(loss.total);
  return doubles(losses);
}

/// What all workers have alike where there are virtual replicas, beside the model.
std::vector<NamedTensor> common_state(const TrainState& state) {
  Replica& replica = *state.replicas.front();
  std::vector<NamedTensor> tensors = states_of(random_streams({replica.place().device}));
  tensors.emplace_back(kLosses, running_losses(state));
  tensors.emplace_back(kMetrics,
                       doubles(detail::ReplicaDriver(replica).metrics(Phase::train).sums()));
  return tensors;
}

/// What this worker has of its own: random state, running loss and what its strategy keeps, and
/// each replica's buffers and running metrics.
std::vector<NamedTensor> own_state(const Strategy& strategy, const TrainState& state) {
  std::vector<NamedTensor> tensors = states_of(random_streams(devices_of(state)));
  tensors.emplace_back(kLosses, running_losses(state));
  for (std::size_t i = 0; i < state.replicas.size(); ++i) {
    Replica& replica = *state.replicas[i];
    const std::string prefix = replica_prefix(i);
    tensors.emplace_back(prefix + kMetrics,
                         doubles(detail::ReplicaDriver(replica).metrics(Phase::train).sums()));
    for (const auto& [name, buffer] : replica.buffers()) {
      tensors.emplace_back(prefix + kBuffer + name, buffer);
    }
    for (const auto& [name, tensor] : detail::ReplicaDriver(replica).own_tensors()) {
      tensors.emplace_back(prefix + kOwn + name, tensor);
    }
  }
  for (const auto& [name, tensor] : strategy.own_state()) {
    tensors.emplace_back(kStrategy + name, tensor);
  }
  return tensors;
}

/// All replicas' buffers as one: floating point ones are their mean, others the chief's.
std::vector<NamedTensor> common_buffers(const std::vector<NamedTensor>& buffers,
                                        const std::vector<std::vector<NamedTensor>>& workers,
                                        std::size_t local_replicas) {
  std::vector<NamedTensor> common;
  for (const auto& [name, buffer] : buffers) {
    at::Tensor value = find(workers.front(), kBuffer + name);
    if (value.is_floating_point()) {
      at::Tensor total = torch::zeros(value.sizes(), torch::kFloat64);
      for (const auto& worker : workers) {
        for (std::size_t i = 0; i < local_replicas; ++i) {
          total += find(worker, replica_prefix(i) + kBuffer + name);
        }
      }
      value =
          (total / static_cast<double>(workers.size() * local_replicas)).to(value.scalar_type());
    }
    common.emplace_back(name, value);
  }
  return common;
}

/// JSON has no infinity and nothing that is not a number: those are texts.
json exactly(double value) {
  return std::isfinite(value) ? json(value) : json(std::to_string(value));
}

void describe_learning(const TrainState& state, json& facts) {
  for (const auto& [name, options] : state.made_options) {
    const json made = json::parse(options);
    for (std::size_t g = 0; g < made.size(); ++g)
      facts.at("optimizers").at(name).at("groups").at(g)["made"] = made[g];
  }
  each_rate(state, facts, [](json& described, double base) { described = base; });
  const detail::PlateauState& plateau = state.plateau;
  // Drops alone: so many validations, none of them finite.
  const bool has_seen =
      plateau.best || plateau.since > 0 || plateau.drops > 0 || plateau.observed_epoch >= 0;
  if (has_seen) {
    facts["plateau"] = {{"best", plateau.best ? json(*plateau.best) : json()},
                        {"since", plateau.since},
                        {"drops", plateau.drops},
                        {"observed_epoch", plateau.observed_epoch}};
  }
  if (!state.averages) return;
  facts["averages"] = {{"decay", state.averages->decay}, {"updates", state.averages->updates}};
}

json facts_of(Strategy& strategy, const TrainState& state, const DataIdentity& data) {
  json facts;
  facts["step"] = state.step;
  // In batches, so that a run that reads more or fewer at a step continues at the same examples.
  const std::int64_t batches = (data.epoch_examples + data.global_batch - 1) / data.global_batch;
  const std::int64_t step = state.position.step * data.batches_per_step;
  facts["position"] = {{"epoch", state.position.epoch},
                       {"step", data.batches_per_step == 1 ? step : std::min(step, batches)}};
  if (data.examples == kUnknownSize) {
    facts["position"]["at_end"] = state.position.at_end;
    facts["position"]["block"] = state.position.place.block;
    facts["position"]["before"] = state.position.place.before;
  }
  facts["data"] = {{"train_examples", data.examples},
                   {"batch_size", data.global_batch},
                   {"seed", data.seed},
                   {"order", data.order},
                   {"digest", data.digest}};
  facts["world_size"] = strategy.pace().voices();
  facts["local_replicas"] = strategy.local_replicas();
  if (strategy.virtual_replicas() > 0) facts["virtual_replicas"] = strategy.virtual_replicas();
  facts["arithmetic"] = arithmetic();
  json names = json::array();
  json weights = json::array();
  for (const detail::LossSum& loss : state.epoch_loss.sums()) {
    names.push_back(loss.name);
    weights.push_back(loss.weight);
  }
  facts["epoch_loss"] = {
      {"names", names}, {"examples", weights}, {"all_examples", state.epoch_loss.examples()}};
  for (const auto& [name, value] : state.kept) facts["kept"][name] = exactly(value);
  return facts;
}

/// On the host, and no longer the run's: training goes on while files are written.
std::vector<NamedTensor> copied(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> copies;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().to(at::kCPU);
    copies.emplace_back(
        name, tensor.is_cpu() ? host.clone(at::MemoryFormat::Contiguous) : host.contiguous());
  }
  return copies;
}

/// The workers' own states, by rank, on the chief.
std::vector<std::vector<NamedTensor>> gather_own(Strategy& strategy, const TrainState& state) {
  const std::vector<NamedTensor> mine = own_state(strategy, state);
  if (strategy.world_size() == 1) return {copied(mine)};
  std::vector<std::byte> file;
  if (!strategy.is_chief()) file = write_tensors(mine);
  auto files = strategy.gather_to_chief(file);
  file = {};
  std::vector<std::vector<NamedTensor>> workers;
  for (auto& bytes : files) {
    workers.push_back(workers.empty() ? copied(mine)
                                      : read_tensors(std::move(bytes), "a worker's state"));
  }
  return workers;
}

/// All optimisers: descriptions by name, tensors as "<optimiser>/<parameter>/<field>".
struct Optimizers {
  json descriptions;
  std::vector<NamedTensor> tensors;
};

/// Adds the state of other parameters.
void add(json& all, const json& others) {
  for (const auto& [name, theirs] : others.items()) {
    all.at(name).at("counters").update(theirs.at("counters"));
  }
}

constexpr char kDescriptions[] = "optimizers";  // beside the tensors of a worker

/// The descriptions of another worker's, and their tensors.
json read_optimizers(std::vector<std::byte> bytes, std::vector<NamedTensor>& tensors) try {
  TensorTexts texts;
  const auto read = read_tensors(std::move(bytes), "a worker's part of the optimisers", &texts);
  tensors.insert(tensors.end(), read.begin(), read.end());
  return json::parse(texts[kDescriptions]);
} catch (const json::exception& error) {
  throw does_not_fit(text("a worker describes its optimisers as ", error.what()));
}

/// Whole, as they are without --shard-optimizer, and copied, on the chief; elsewhere a part.
/// Collective: where their state is divided.
Optimizers gather_optimizers(Strategy& strategy, const TrainState& state) {
  Optimizers all;
  all.descriptions = describe_optimizers(*state.replicas.front(), all.tensors);
  const bool is_divided = state.optimizer_shards > 1;
  for (std::size_t i = 1; is_divided && i < state.replicas.size(); ++i) {
    add(all.descriptions, describe_optimizers(*state.replicas[i], all.tensors));
  }
  if (strategy.is_chief()) all.tensors = copied(all.tensors);
  if (!is_divided) return all;
  std::vector<std::byte> file;
  if (!strategy.is_chief()) {
    file = write_tensors(all.tensors, {{kDescriptions, all.descriptions.dump()}});
  }
  auto files = strategy.gather_to_chief(file);
  for (std::size_t rank = 1; rank < files.size(); ++rank) {
    add(all.descriptions, read_optimizers(std::move(files[rank]), all.tensors));
  }
  return all;
}

}  // namespace

DataIdentity identity_of(const DistributedDataset& train, const TrainOptions& options,
                         std::int64_t updates_per_step) {
  return {train.examples(),
          options.batch_size,
          options.seed,
          updates_per_step,
          train.plan().epoch_examples(),
          train.order_signature(),
          train.digest()};
}

RunSnapshot capture(Strategy& strategy, const TrainState& state, const DataIdentity& data) {
  Replica& replica = *state.replicas.front();
  RunSnapshot snapshot;
  snapshot.facts = facts_of(strategy, state, data);
  Optimizers optimizers = gather_optimizers(strategy, state);
  snapshot.facts["optimizers"] = std::move(optimizers.descriptions);
  const Freezing frozen = ReplicaDriver(replica).freezing();
  snapshot.facts["frozen"] = {{"parameters", frozen.parameters}, {"modules", frozen.modules}};
  const bool is_common = strategy.virtual_replicas() > 0;
  std::vector<std::vector<NamedTensor>> workers;
  if (!is_common) workers = gather_own(strategy, state);
  if (!strategy.is_chief()) return {};

  describe_learning(state, snapshot.facts);
  if (state.averages) snapshot.files[kAveragesFile] = copied(state.averages->values);
  std::vector<NamedTensor>& model = snapshot.files[kModelFile] = copied(replica.parameters());
  for (auto& buffer : is_common
                          ? copied(replica.buffers())
                          : common_buffers(replica.buffers(), workers, state.replicas.size())) {
    model.push_back(std::move(buffer));
  }
  if (is_common) snapshot.files[kCommonFile] = copied(common_state(state));
  snapshot.files[kOptimizersFile] = std::move(optimizers.tensors);
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    snapshot.files[worker_file(static_cast<int>(rank))] = std::move(workers[rank]);
  }
  return snapshot;
}

}  // namespace troupe
