// RunSnapshot, the way back: from the chief's copy into every worker's replicas, one file after the
// other, so that no other worker has more of it in memory than a file.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/strict_json.h"
#include "troupe/data/data_digest.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/gradients/optimizer_shards.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/replicas/random_fill.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/checkpoint/random_streams.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe {
namespace {

using namespace detail;  // NOLINT: the other half of the same unit
using nlohmann::json;

/// What the chief read, as every worker comes to see it.
class ChiefsSnapshot {
 public:
  /// Collective: where the chief alone has it, and so is file().
  ChiefsSnapshot(Strategy& strategy, const RunSnapshot& snapshot, Holder holder)
      : strategy_(strategy), snapshot_(snapshot), holder_(holder) {
    json names = json::array();
    for (const auto& [name, tensors] : snapshot.files) names.push_back(name);
    const json known = from_chief({{"facts", snapshot.facts}, {"files", names}});
    facts = known.at("facts");
    names_ = known.at("files").get<std::vector<std::string>>();
  }

  /// The tensors of one file; they are the caller's but where they were before.
  /// Throws: CheckpointError where it is missing, on every worker.
  [[nodiscard]] std::vector<NamedTensor> file(const std::string& name) const {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      throw does_not_fit("its file " + name + " is missing");
    }
    const auto chiefs = snapshot_.files.find(name);
    if (holder_ == Holder::every_worker) return chiefs->second;
    json shapes = json::array();
    if (chiefs != snapshot_.files.end()) {
      for (const auto& [tensor_name, tensor] : chiefs->second) {
        shapes.push_back({tensor_name, tensor.scalar_type(), tensor.sizes().vec()});
      }
    }
    std::vector<NamedTensor> tensors;
    for (const json& shape : from_chief(shapes)) {
      const at::Tensor tensor =
          strategy_.is_chief()
              ? chiefs->second[tensors.size()].second
              : torch::empty(shape.at(2).get<std::vector<std::int64_t>>(),
                             torch::TensorOptions(shape.at(1).get<at::ScalarType>()));
      strategy_.broadcast(host_bytes(tensor));
      tensors.emplace_back(shape.at(0).get<std::string>(), tensor);
    }
    return tensors;
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  json facts;

 private:
  [[nodiscard]] json from_chief(const json& mine) const {
    if (holder_ == Holder::every_worker) return mine;
    std::string text = mine.dump();
    std::uint64_t size = text.size();
    strategy_.broadcast(as_writable_bytes(Span<std::uint64_t>(&size, 1)));
    text.resize(size);
    strategy_.broadcast(as_writable_bytes(Span<char>(text.data(), text.size())));
    return json::parse(text);
  }

  Strategy& strategy_;
  const RunSnapshot& snapshot_;  // of the chief alone: empty elsewhere
  const Holder holder_;
  std::vector<std::string> names_;
};

void warn_of_other_arithmetic(const json& saved) {
  const json present = arithmetic();
  for (const auto& [key, now] : present.items()) {
    const auto then = saved.find(key);
    if (then == saved.end() || *then == now) continue;
    log_warning("the checkpoint was made with ", key, " ", *then, ", now it is ", now,
                ": the run continues, but rounds differently than it would have");
  }
}

/// The virtual replicas are a part of the numbers, as the arithmetic is where there are any: with
/// others a run would not have the bits that they promise.
void check_virtual_replicas(const Strategy& strategy, const json& facts) {
  const int then = facts.value("virtual_replicas", 0);
  const int now = strategy.virtual_replicas();
  if (then != now) {
    throw ConfigError(
        text("the checkpoint was made with --virtual-replicas ", then, ", now it is ", now, "."),
        "use the former value, or another --model-dir, which --init-from can start from this one's "
        "weights.");
  }
  if (now == 0) return;
  const json present = arithmetic();
  const json& saved = facts.at("arithmetic");
  for (const auto& [key, here] : present.items()) {
    if (saved.value(key, json()) == here) continue;
    throw ConfigError(
        text("the checkpoint was made with ", key, " ", saved.value(key, json()).dump(),
             ", now it is ", here.dump(), ", which rounds differently."),
        "resume with --threads, LibTorch, BLAS and processor as they were; without "
        "--virtual-replicas, --init-from can start from the weights.");
  }
}

void check_data(const json& saved, const DataIdentity& data) {
  const auto check = [&](const char* what, const std::string& then, const std::string& now) {
    if (then == now) return;
    throw ConfigError(
        text("the checkpoint was made with ", what, " ", then, ", now it is ", now, "."),
        "a position in the data means other examples then: use the former value, or another "
        "--model-dir, which --init-from can start from this one's weights.");
  };
  check("a number of training examples of", saved.at("train_examples").dump(), text(data.examples));
  check("--batch-size", saved.at("batch_size").dump(), text(data.global_batch));
  check("--seed", saved.at("seed").dump(), text(data.seed));
  check("training examples in the order of the sampler", saved.at("order").get<std::string>(),
        data.order);
}

/// Data that has been changed in place is the user's business, and worth a word.
void warn_of_other_data(const json& saved, const DataIdentity& data) {
  const auto found = data_difference(data.digest, saved.at("digest").get<std::string>());
  if (!found) return;
  log_warning("the checkpoint was made with other data: ", found->what, " was ", found->theirs,
              ", now it is ", found->mine,
              ". Training goes on at the same place in the new data; with another --model-dir and "
              "--init-from it would begin anew with these weights");
}

/// Before the optimisers are restored: where a schedule moves the rates, those of create_model take
/// the place of the saved ones.
void keep_base_rates(const Strategy& strategy, const TrainState& state, json& facts) {
  each_rate(state, facts, [&](json& saved, double base) {
    if (saved != base && strategy.is_chief()) {
      log_info("the learning rate is scheduled from create_model's ", base,
               "; the checkpoint was made with ", saved);
    }
    saved = base;
  });
}

/// Parameters and buffers of all, and which of them are frozen.
void restore_replicas(const Strategy& strategy, const TrainState& state,
                      const ChiefsSnapshot& chiefs) {
  const auto model = chiefs.file(kModelFile);
  for (const auto& replica : state.replicas) copy_model(*replica, model);
  const json& saved = chiefs.facts.at("frozen");
  const Freezing frozen{saved.at("parameters").get<std::vector<std::string>>(),
                        saved.at("modules").get<std::vector<std::string>>()};
  const Freezing wanted = ReplicaDriver(*state.replicas.front()).freezing();
  if (strategy.is_chief() && !(frozen == wanted)) {
    log_info("as the checkpoint has it, ", frozen.parameters.size(), " parameters are frozen and ",
             frozen.modules.size(), " modules are in evaluation mode; create_model made ",
             wanted.parameters.size(), " and ", wanted.modules.size(), " so");
  }
  for (const auto& replica : state.replicas) ReplicaDriver(*replica).freeze(frozen);
}

/// Of optimisers whose state is divided each replica takes its part.
void restore_optimizers(const Strategy& strategy, const TrainState& state,
                        const ChiefsSnapshot& chiefs) {
  const auto tensors = chiefs.file(kOptimizersFile);
  const int shards = state.optimizer_shards;
  int shard = strategy.rank() * strategy.local_replicas();
  for (const auto& replica : state.replicas) {
    for (const auto& name : replica->optimizer_names()) {
      auto& optimizer = replica->optimizer(name);
      json description = chiefs.facts.at("optimizers").at(name);
      if (shards > 1) description = description_of_shard(description, optimizer, shard, shards);
      restore_optimizer(optimizer, replica->parameters(), description,
                        named_below(tensors, name + "/"));
    }
    ++shard;
  }
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

/// Whether a worker's file has sums under this name.
bool is_sums(const std::string& name) {
  const std::string metrics = text("/", kMetrics);
  return name == kLosses || name == kMetrics ||
         (name.rfind("replica-", 0) == 0 && name.size() > metrics.size() &&
          name.compare(name.size() - metrics.size(), metrics.size(), metrics) == 0);
}

void add_to(std::vector<double>& sums, const at::Tensor& saved) {
  if (saved.numel() != static_cast<std::int64_t>(sums.size())) {
    throw does_not_fit("its metrics or losses are not those of the hooks");
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += saved.data_ptr<double>()[i];
}

/// What was a worker's own continues: running sums and, in the same layout, all the rest.
struct RunningSums {
  std::vector<double> losses;
  std::vector<std::vector<double>> metrics;  // by replica
};

void restore_own(Strategy& strategy, TrainState& state, const ChiefsSnapshot& chiefs, int workers,
                 RunningSums& sums) {
  std::vector<NamedTensor> own;
  for (int rank = 0; rank < workers; ++rank) {
    auto file = chiefs.file(worker_file(rank));
    if (rank == strategy.rank()) own = std::move(file);
  }
  restore_states(random_streams(devices_of(state)), own);
  strategy.restore_own_state(named_below(own, kStrategy));
  add_to(sums.losses, find(own, kLosses));
  for (std::size_t i = 0; i < state.replicas.size(); ++i) {
    copy_weights(state.replicas[i]->buffers(), own, replica_prefix(i) + kBuffer);
    copy_weights(ReplicaDriver(*state.replicas[i]).own_tensors(), own, replica_prefix(i) + kOwn);
    add_to(sums.metrics[i], find(own, replica_prefix(i) + kMetrics));
  }
}

/// In another layout the chief takes all workers' sums, and the rest starts anew.
void restore_for_others(Strategy& strategy, const TrainState& state, const RunSnapshot& snapshot,
                        const Layout& former, std::uint64_t seed, RunningSums& sums) {
  log_warning("the checkpoint was made by ", to_text(former), ", this run has ",
              to_text(Layout{strategy.world_size(), strategy.local_replicas()}),
              ": weights and data position go on, random streams",
              ReplicaDriver(*state.replicas.front()).own_tensors().empty()
                  ? ""
                  : " and replicas' own tensors",
              " start anew");
  strategy.restore_own_state({});
  detail::start_random_streams(state, seed);
  for (int rank = 0; strategy.is_chief() && rank < former.workers; ++rank) {
    const auto file = snapshot.files.find(worker_file(rank));
    if (file == snapshot.files.end()) throw does_not_fit("a worker's file is missing");
    add_to(sums.losses, find(file->second, kLosses));
    for (int i = 0; i < former.replicas; ++i) {
      add_to(sums.metrics[0],
             find(file->second, replica_prefix(static_cast<std::size_t>(i)) + kMetrics));
    }
  }
}

/// The epoch's running losses and metrics, and each worker's and replica's own state.
void restore_workers(Strategy& strategy, TrainState& state, const ChiefsSnapshot& chiefs,
                     const RunSnapshot& snapshot, std::uint64_t seed) {
  const json& saved = chiefs.facts.at("epoch_loss");
  std::vector<detail::LossSum> losses;
  for (const auto& name : saved.at("names")) {
    losses.push_back(
        {name.get<std::string>(), 0, saved.at("examples").at(losses.size()).get<double>()});
  }
  const std::size_t metric_sums =
      detail::ReplicaDriver(*state.replicas.front()).metrics(Phase::train).sums().size();
  RunningSums sums{std::vector<double>(losses.size(), 0.0),
                   {state.replicas.size(), std::vector<double>(metric_sums, 0.0)}};
  const Layout former{chiefs.facts.at("world_size").get<int>(),
                      chiefs.facts.at("local_replicas").get<int>()};
  if (strategy.virtual_replicas() > 0) {
    // Every worker has all of it, whatever the layout; sums over a worker's replicas are the first
    // one's.
    const auto common = chiefs.file(kCommonFile);
    restore_states(random_streams({state.replicas.front()->place().device}), common);
    add_to(sums.losses, find(common, kLosses));
    add_to(sums.metrics[0], find(common, kMetrics));
  } else if (former == Layout{strategy.pace().voices(), strategy.local_replicas()}) {
    restore_own(strategy, state, chiefs, former.workers, sums);
  } else {
    restore_for_others(strategy, state, snapshot, former, seed, sums);
  }
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i].total = sums.losses[i];
  state.epoch_loss.restore(losses, saved.at("all_examples").get<std::int64_t>());
  for (std::size_t i = 0; i < sums.metrics.size(); ++i) {
    detail::ReplicaDriver(*state.replicas[i]).metrics(Phase::train).set_sums(sums.metrics[i]);
  }
}

void restore_numbers(TrainState& state, const json& facts) {
  state.step = facts.at("step").get<std::int64_t>();
  const json& position = facts.at("position");
  state.position = {
      position.at("epoch").get<std::int64_t>(),
      position.at("step").get<std::int64_t>(),
      position.value("at_end", false),
      {position.value("block", std::int64_t{0}), position.value("before", std::int64_t{0})}};
  state.kept.clear();
  const json kept = facts.value("kept", json::object());
  for (const auto& [name, value] : kept.items()) {
    state.kept[name] =
        value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
  }
  state.plateau = {};
  const auto saved = facts.find("plateau");
  if (saved == facts.end()) return;
  if (!saved->at("best").is_null()) state.plateau.best = saved->at("best").get<double>();
  state.plateau.since = saved->at("since").get<std::int64_t>();
  state.plateau.drops = saved->at("drops").get<std::int64_t>();
  state.plateau.observed_epoch = saved->at("observed_epoch").get<std::int64_t>();
}

/// After the weights. The chief's log says where averages begin anew, go on with another decay, or
/// are dropped.
void restore_averages(const Strategy& strategy, TrainState& state, const ChiefsSnapshot& chiefs) {
  const auto saved = chiefs.facts.find("averages");
  if (saved == chiefs.facts.end()) {
    if (!state.averages) return;
    copy_values(state.averages->weights, state.averages->values);
    state.averages->updates = 0;
    if (strategy.is_chief()) {
      log_info("the checkpoint has no averaged weights: they begin at its weights");
    }
    return;
  }
  const auto tensors = chiefs.file(kAveragesFile);
  if (!state.averages) {
    if (!strategy.is_chief()) return;
    log_warning(
        "the checkpoint's averaged weights are dropped, since --ema-decay is 0: from now "
        "on evaluations use the weights themselves");
    return;
  }
  detail::WeightAverages& averages = *state.averages;
  if (tensors.size() != averages.values.size()) {
    throw CheckpointError(text("the checkpoint has averages of ", tensors.size(),
                               " parameters, and the model has ", averages.values.size(), "."),
                          "resume with the hooks that made it, or start in another --model-dir.");
  }
  copy_weights(averages.values, tensors);
  averages.updates = saved->at("updates").get<std::int64_t>();
  const auto decay = saved->at("decay").get<double>();
  if (decay == averages.decay || !strategy.is_chief()) return;
  log_info("the averaged weights continue with --ema-decay ", averages.decay, "; so far it was ",
           decay);
}

}  // namespace

void check_own_states(const RunSnapshot& snapshot) {
  const auto damaged = [](const std::string& file, const std::string& what) {
    return CheckpointError(text("'", file, "' ", what, "."),
                           "the checkpoint is damaged; use another one.");
  };
  std::size_t losses = 0;
  int workers = 0;
  try {
    losses = snapshot.facts.at("epoch_loss").at("names").size();
    workers = snapshot.facts.at("world_size").get<int>();
  } catch (const json::exception& error) {
    throw damaged("manifest.json", text("is not complete (", json_message(error), ")"));
  }
  std::vector<std::string> names;
  for (int rank = 0; rank < workers; ++rank) names.push_back(worker_file(rank));
  if (snapshot.facts.contains("virtual_replicas")) names = {kCommonFile};
  for (const std::string& name : names) {
    const auto file = snapshot.files.find(name);
    if (file == snapshot.files.end()) throw damaged(name, "is missing");
    const auto& tensors = file->second;
    try {
      // A generator of its own shows whether LibTorch accepts the state.
      restore_states({{kRandom, at::detail::createCPUGenerator()}}, tensors);
      if (find(tensors, kLosses).numel() != static_cast<std::int64_t>(losses)) {
        throw does_not_fit(text("it has not the sums of its ", losses, " losses"));
      }
    } catch (const CheckpointError& error) {
      throw damaged(name, "is not usable: " + error.cause().substr(0, error.cause().size() - 1));
    }
    for (const auto& [tensor_name, tensor] : tensors) {
      if (!is_sums(tensor_name)) continue;
      if (tensor.scalar_type() == torch::kFloat64 && tensor.dim() == 1) continue;
      throw damaged(name, text("has \"", tensor_name, "\" as ", tensor.scalar_type(), " ",
                               tensor.sizes(), " instead of a list of Double"));
    }
  }
}

void restore(Strategy& strategy, TrainState& state, const DataIdentity& data,
             const RunSnapshot& snapshot, Holder holder) {
  try {
    ChiefsSnapshot chiefs(strategy, snapshot, holder);
    check_data(chiefs.facts.at("data"), data);
    if (strategy.is_chief()) warn_of_other_data(chiefs.facts.at("data"), data);
    check_virtual_replicas(strategy, chiefs.facts);
    if (strategy.is_chief()) warn_of_other_arithmetic(chiefs.facts.at("arithmetic"));
    keep_base_rates(strategy, state, chiefs.facts);
    restore_replicas(strategy, state, chiefs);
    restore_optimizers(strategy, state, chiefs);
    restore_numbers(state, chiefs.facts);
    restore_workers(strategy, state, chiefs, snapshot, data.seed);
    restore_averages(strategy, state, chiefs);
  } catch (const json::exception& error) {
    throw does_not_fit(text("its description is not complete (", json_message(error), ")"));
  }
}

RunSnapshot copy_to_all(Strategy& strategy, const RunSnapshot& mine) {
  const ChiefsSnapshot chiefs(strategy, mine, Holder::chief);
  RunSnapshot copy;
  copy.facts = chiefs.facts;
  for (const std::string& name : chiefs.names()) copy.files[name] = chiefs.file(name);
  return copy;
}

}  // namespace troupe
