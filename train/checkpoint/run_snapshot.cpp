#include "train/checkpoint/run_snapshot.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/log.h"
#include "core/machine.h"
#include "hooks/replica_driver.h"
#include "strategies/gradients/optimizer_state.h"
#include "tensors/tensor_file.h"
#include "train/checkpoint/learning_snapshot.h"
#include "train/checkpoint/model_weights.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;
using Bytes = std::vector<std::byte>;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizers = "optimizers.safetensors";
constexpr const char* kWorker = "worker-";  // worker-<rank>.safetensors
constexpr const char* kBuffer = "buffer/";
constexpr const char* kStrategy = "strategy/";  // what Strategy::own_state() gives

/// Before the names of what a replica of a worker has of its own; nothing for the first.
std::string replica_prefix(std::size_t replica) {
  return replica == 0 ? "" : text("replica-", replica, "/");
}
std::string worker_file(int rank) { return text(kWorker, rank, ".safetensors"); }

Span<const char> characters(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string to_text(const Bytes& bytes) {
  return {characters(bytes).begin(), characters(bytes).end()};
}
Bytes to_bytes(const std::string& characters) {
  const auto* data = reinterpret_cast<const std::byte*>(characters.data());
  return {data, data + characters.size()};
}

CheckpointError does_not_fit(const std::string& what) {
  return CheckpointError("the checkpoint does not fit the model: " + what + ".",
                         "resume with the hooks that made it, or start in another --model-dir.");
}

/// LibTorch's random state, [5056] uint8.
at::Tensor random_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}
void set_random_state(const at::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

at::Tensor doubles(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}
std::vector<double> to_doubles(const at::Tensor& tensor) {
  const auto* data = tensor.data_ptr<double>();
  return {data, data + tensor.numel()};
}

/// What this worker has of its own: random state, running loss and what its strategy keeps, and
/// each replica's buffers and running metrics.
Bytes own_state(const Strategy& strategy, const TrainState& state) {
  std::vector<double> losses;
  for (const auto& [name, sum] : state.epoch_loss.sums()) losses.push_back(sum);
  std::vector<NamedTensor> tensors = {{"random", random_state()}, {"losses", doubles(losses)}};
  for (std::size_t i = 0; i < state.replicas.size(); ++i) {
    Replica& replica = *state.replicas[i];
    const std::string prefix = replica_prefix(i);
    tensors.emplace_back(prefix + "metrics",
                         doubles(detail::ReplicaDriver(replica).metrics(Phase::train).sums()));
    for (const auto& [name, buffer] : replica.buffers()) {
      tensors.emplace_back(prefix + kBuffer + name, buffer);
    }
  }
  for (const auto& [name, tensor] : strategy.own_state()) {
    tensors.emplace_back(kStrategy + name, tensor);
  }
  return write_tensors(tensors);
}

/// The part of a worker's state that its strategy gave.
std::vector<NamedTensor> state_of_strategy(const std::vector<NamedTensor>& tensors) {
  const std::string prefix = kStrategy;
  std::vector<NamedTensor> found;
  for (const auto& [name, tensor] : tensors) {
    if (name.rfind(prefix, 0) == 0) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

const at::Tensor& find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& t) { return t.first == name; });
  if (found == tensors.end()) throw does_not_fit("it has no \"" + name + "\"");
  return found->second;
}

/// All replicas' buffers as one: floating point ones are their mean, others the chief's.
std::vector<NamedTensor> common_buffers(const std::vector<NamedTensor>& buffers,
                                        const std::vector<Bytes>& workers,
                                        std::size_t local_replicas) {
  std::vector<std::vector<NamedTensor>> parts;
  for (const Bytes& bytes : workers) parts.push_back(read_tensors(bytes, "a worker's state"));
  std::vector<NamedTensor> common;
  for (const auto& [name, buffer] : buffers) {
    at::Tensor value = find(parts.front(), kBuffer + name);
    if (value.is_floating_point()) {
      at::Tensor total = torch::zeros(value.sizes(), torch::kFloat64);
      for (const auto& part : parts) {
        for (std::size_t i = 0; i < local_replicas; ++i) {
          total += find(part, replica_prefix(i) + kBuffer + name);
        }
      }
      value = (total / static_cast<double>(parts.size() * local_replicas)).to(value.scalar_type());
    }
    common.emplace_back(name, value);
  }
  return common;
}

/// What decides how sums round: the same run on another of these is equal up to rounding only.
ordered_json arithmetic() {
  static const Machine machine = inspect_machine();  // looked at once; it does not change
  return {{"libtorch", TORCH_VERSION},
          {"cpu_capability", machine.cpu_capability},
          {"blas", machine.blas.path},
          {"compute_threads", at::get_num_threads()}};
}

void warn_of_other_arithmetic(const ordered_json& saved) {
  const ordered_json present = arithmetic();
  for (const auto& [key, now] : present.items()) {
    const auto then = saved.find(key);
    if (then == saved.end() || *then == now) continue;
    log_warning("the checkpoint was made with ", key, " ", *then, ", now it is ", now,
                ": the run goes on, but rounds differently than it would have");
  }
}

/// Workers whose own state a checkpoint holds: all, or without lockstep the chief.
int savers(const Strategy& strategy) { return strategy.in_lockstep() ? strategy.world_size() : 1; }

ordered_json facts_of(const Strategy& strategy, const TrainState& state, const DataIdentity& data) {
  ordered_json facts;
  facts["step"] = state.step;
  // In batches, so that a run that reads more or fewer at a step goes on at the same examples.
  const std::int64_t batches = (data.examples + data.global_batch - 1) / data.global_batch;
  const std::int64_t step = state.position.step * data.batches_per_step;
  facts["position"] = {{"epoch", state.position.epoch},
                       {"step", data.batches_per_step == 1 ? step : std::min(step, batches)}};
  facts["data"] = {
      {"train_examples", data.examples}, {"batch_size", data.global_batch}, {"seed", data.seed}};
  facts["world_size"] = savers(strategy);
  facts["local_replicas"] = strategy.local_replicas();
  facts["arithmetic"] = arithmetic();
  ordered_json names = ordered_json::array();
  for (const auto& [name, sum] : state.epoch_loss.sums()) names.push_back(name);
  facts["epoch_loss"] = {{"names", names}, {"examples", state.epoch_loss.examples()}};
  return facts;
}

void check_data(const ordered_json& saved, const DataIdentity& data) {
  const auto check = [&](const char* key, const char* flag, const std::string& now) {
    const std::string then = saved.at(key).dump();
    if (then == now) return;
    throw ConfigError(
        text("the checkpoint was made with ", flag, " ", then, ", now it is ", now, "."),
        "a position in the data means other examples then: use the former value, or "
        "another --model-dir.");
  };
  check("train_examples", "a number of training examples of", text(data.examples));
  check("batch_size", "--batch-size", text(data.global_batch));
  check("seed", "--seed", text(data.seed));
}

/// The chief's snapshot on every worker.
RunSnapshot broadcast(Strategy& strategy, const RunSnapshot& snapshot) {
  if (strategy.world_size() == 1) return snapshot;
  const auto from_chief = [&](const std::string& mine) {
    return strategy.gather(strategy.is_chief() ? mine : std::string()).front();
  };
  RunSnapshot all;
  all.facts = from_chief(snapshot.facts);
  ordered_json names = ordered_json::array();
  for (const auto& [name, bytes] : snapshot.files) names.push_back(name);
  for (const auto& name : ordered_json::parse(from_chief(names.dump()))) {
    const auto file = snapshot.files.find(name.get<std::string>());
    const bool have = file != snapshot.files.end();
    all.files[name] = to_bytes(from_chief(have ? to_text(file->second) : std::string()));
  }
  return all;
}

/// How many workers, and replicas of each, something was or is made by.
struct Layout {
  int workers = 1;
  int replicas = 1;  // of each worker
  bool operator==(const Layout& other) const {
    return workers == other.workers && replicas == other.replicas;
  }
};

std::string to_text(const Layout& layout) {
  return text(layout.workers, layout.workers == 1 ? " worker" : " workers", " with ",
              layout.replicas, layout.replicas == 1 ? " replica" : " replicas",
              layout.workers == 1 ? "" : " each");
}

void add_to(std::vector<double>& sums, const at::Tensor& saved) {
  const auto more = to_doubles(saved);
  if (more.size() != sums.size()) {
    throw does_not_fit("its metrics or losses are not those of the hooks");
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
}

/// What each worker and replica had of its own; in another layout, what can be had of it.
void restore_own(Strategy& strategy, TrainState& state, const ordered_json& facts,
                 const RunSnapshot& snapshot, std::uint64_t seed) {
  const Layout former{facts.at("world_size").get<int>(), facts.value("local_replicas", 1)};
  const Layout present{savers(strategy), strategy.local_replicas()};
  const auto own = [&](int rank) {
    const std::string name = worker_file(rank);
    return read_tensors(snapshot.files.at(name), name);
  };
  const std::size_t metric_sums =
      detail::ReplicaDriver(*state.replicas.front()).metrics(Phase::train).sums().size();
  LossValues losses;
  for (const auto& name : facts.at("epoch_loss").at("names")) losses.emplace_back(name, 0.0);
  std::vector<double> loss_sums(losses.size(), 0.0);
  std::vector<std::vector<double>> metrics(state.replicas.size(),
                                           std::vector<double>(metric_sums, 0.0));
  if (former == present) {
    const auto part = own(strategy.rank());
    set_random_state(find(part, "random"));
    strategy.restore_own_state(state_of_strategy(part));
    add_to(loss_sums, find(part, "losses"));
    for (std::size_t i = 0; i < state.replicas.size(); ++i) {
      copy_weights(state.replicas[i]->buffers(), part, replica_prefix(i) + kBuffer);
      add_to(metrics[i], find(part, replica_prefix(i) + "metrics"));
    }
  } else {
    log_warning("the checkpoint was made by ", to_text(former), ", this run has ",
                to_text(Layout{strategy.world_size(), strategy.local_replicas()}),
                ": weights and data position go on, random streams start anew");
    strategy.restore_own_state({});
    // A stream of its own for every worker and step.
    torch::manual_seed(seed + 1 + static_cast<std::uint64_t>(strategy.rank()) +
                       (static_cast<std::uint64_t>(state.step) << 20));
    for (int rank = 0; strategy.is_chief() && rank < former.workers; ++rank) {
      const auto part = own(rank);
      add_to(loss_sums, find(part, "losses"));
      for (int i = 0; i < former.replicas; ++i) {
        add_to(metrics[0], find(part, replica_prefix(static_cast<std::size_t>(i)) + "metrics"));
      }
    }
  }
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i].second = loss_sums[i];
  state.epoch_loss.restore(losses, facts.at("epoch_loss").at("examples").get<std::int64_t>());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    detail::ReplicaDriver(*state.replicas[i]).metrics(Phase::train).set_sums(metrics[i]);
  }
}

/// Parameters and buffers of all, and optimisers, into one replica.
void restore_replica(Replica& replica, const ordered_json& facts,
                     const std::vector<NamedTensor>& model,
                     const std::vector<NamedTensor>& optimizer_tensors) {
  std::vector<NamedTensor> present = replica.parameters();
  for (auto& buffer : replica.buffers()) present.push_back(buffer);
  if (model.size() != present.size()) {
    throw does_not_fit(text("it has ", model.size(), " tensors, the model ", present.size()));
  }
  copy_weights(present, model);
  for (const auto& name : replica.optimizer_names()) {
    std::vector<NamedTensor> own;
    for (const auto& [tensor_name, tensor] : optimizer_tensors) {
      if (tensor_name.rfind(name + "/", 0) == 0) {
        own.emplace_back(tensor_name.substr(name.size() + 1), tensor);
      }
    }
    restore_optimizer(replica.optimizer(name), replica.parameters(),
                      facts.at("optimizers").at(name), own);
  }
}

}  // namespace

RunSnapshot capture(Strategy& strategy, const TrainState& state, const DataIdentity& data) {
  Replica& replica = *state.replicas.front();
  ordered_json facts = facts_of(strategy, state, data);
  std::vector<NamedTensor> optimizer_tensors;
  facts["optimizers"] = ordered_json::object();
  for (const auto& name : replica.optimizer_names()) {
    std::vector<NamedTensor> own;
    facts["optimizers"][name] =
        describe_optimizer(replica.optimizer(name), replica.parameters(), own);
    for (auto& [tensor_name, tensor] : own) {
      optimizer_tensors.emplace_back(text(name, "/", tensor_name), tensor);
    }
  }
  std::vector<Bytes> workers;
  for (const std::string& part : strategy.gather(to_text(own_state(strategy, state)))) {
    workers.push_back(to_bytes(part));
  }
  if (!strategy.is_chief()) return {};

  RunSnapshot snapshot;
  detail::capture_learning(state, facts, snapshot);
  snapshot.facts = facts.dump();
  std::vector<NamedTensor> model = replica.parameters();
  for (auto& buffer : common_buffers(replica.buffers(), workers, state.replicas.size()))
    model.push_back(buffer);
  snapshot.files[kModel] = write_tensors(model);
  snapshot.files[kOptimizers] = write_tensors(optimizer_tensors);
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    snapshot.files[worker_file(static_cast<int>(rank))] = std::move(workers[rank]);
  }
  return snapshot;
}

void restore(Strategy& strategy, TrainState& state, const DataIdentity& data,
             const RunSnapshot& chiefs) {
  const RunSnapshot snapshot = broadcast(strategy, chiefs);
  try {
    ordered_json facts = ordered_json::parse(snapshot.facts);
    check_data(facts.at("data"), data);
    if (strategy.is_chief()) warn_of_other_arithmetic(facts.at("arithmetic"));
    detail::keep_base_rates(strategy, state, facts);
    const auto model = read_tensors(snapshot.files.at(kModel), kModel);
    const auto optimizer_tensors = read_tensors(snapshot.files.at(kOptimizers), kOptimizers);
    for (const auto& replica : state.replicas) {
      restore_replica(*replica, facts, model, optimizer_tensors);
    }
    state.step = facts.at("step").get<std::int64_t>();
    state.position = {facts.at("position").at("epoch").get<std::int64_t>(),
                      facts.at("position").at("step").get<std::int64_t>()};
    restore_own(strategy, state, facts, snapshot, data.seed);
    detail::restore_learning(strategy, state, facts, snapshot);
  } catch (const ordered_json::exception& error) {
    throw does_not_fit(text("its description is not complete (", error.what(), ")"));
  } catch (const std::out_of_range&) {
    throw does_not_fit("one of its files is missing");
  }
}

}  // namespace troupe
