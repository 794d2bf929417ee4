#include "servers/parameter_server.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "servers/tensors/implicit_momentum.h"
#include "servers/tensors/pushed_update.h"
#include "servers/tensors/server_report.h"
#include "servers/tensors/server_terms.h"
#include "servers/tensors/shard_states.h"
#include "servers/tensors/tensor_store.h"
#include "strategies/compute_threads.h"
#include "strategies/replicas/local_replicas.h"
#include "strategies/replicas/replica_runner.h"
#include "strategies/shared_failure.h"

namespace troupe {
namespace {

using detail::SharedUpdate;

const StrategyOptions& checked(const StrategyOptions& options) {
  if (options.cluster.is_server()) {
    throw ConfigError("this process is a parameter server (" + options.cluster.task() +
                          "), and the program trains in it.",
                      "call troupe::serve_if_server(hooks, options.strategy) before "
                      "make_strategy, and end where it returns true.");
  }
  detail::check_server_options(options);
  return options;
}

class ParameterServerStrategy final : public Strategy {
 public:
  explicit ParameterServerStrategy(const StrategyOptions& options)
      : options_(checked(options)),
        pace_(detail::pace_of(options.servers)),
        replicas_(options,
                  [this](detail::ReplicaSum& sum, const detail::OverlappedSum::Place& place,
                         const BucketOptions& buckets) {
                    return std::make_unique<detail::PushedUpdate>(sum, place, buckets, shared_);
                  }) {
    if (pace_.synchronous()) shared_.arrive = SharedUpdate::Values::with_push;
  }

  [[nodiscard]] const char* name() const override { return "parameter-server"; }
  [[nodiscard]] int rank() const override { return options_.cluster.rank; }
  [[nodiscard]] int world_size() const override { return options_.cluster.world_size(); }
  [[nodiscard]] int local_replicas() const override { return replicas_.size(); }
  [[nodiscard]] bool in_lockstep() const override { return false; }
  [[nodiscard]] int replicas_in_sync() const override {
    return pace_.synchronous() ? world_size() * local_replicas() : local_replicas();
  }

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    if (client_) {
      throw ConfigError("training was begun twice with the same parameter servers.",
                        "train once per process: servers end with the training they served.");
    }
    TrainState state = replicas_.make(hooks, seed);
    Replica& first = *state.replicas.front();
    served_ = detail::serve(first, options_.servers, servers());
    client_ =
        std::make_unique<ServerClient>(options_.cluster, options_.group, pace_, served_.model);
    client_->join(detail::terms_of(options_, first));
    shared_.exchange.attach(served_, *client_);
    report_.dense_step = served_.trained_bytes();
    rates_ = rates_of(first);
    if (is_chief() && !pace_.synchronous()) detail::warn_of_implicit_momentum(first, world_size());
    return state;
  }

  void publish(TrainState& state, std::int64_t last_step) override {
    if (is_chief()) {
      keep_rates(*state.replicas.front());
      // Where training has reached its end already there is nothing left, not less than nothing.
      client_->start(detail::split_state(*state.replicas.front(), served_, servers()), state.step,
                     std::clamp(last_step, state.step, kEndless));
    } else {
      state.step = client_->wait_for_start();
    }
    started_ = true;
  }

  [[nodiscard]] std::optional<std::int64_t> begin_step(TrainState& state) override {
    if (!started_) publish(state, kEndless);
    const ServerClient::Begun begun = client_->begin(install());
    copy_to_all(state);
    begun_ = begun.step.has_value();
    newest_ = false;
    if (begun_) {
      report_.begin_step(*client_);
      return begun.step;
    }
    state.step = begun.last_step;
    state.ended = begun.ended;
    return std::nullopt;
  }

  void collect(TrainState& state) override {
    // What was validated is what is saved: without a step in between it stays.
    if (!started_ || finished_ || newest_) return;
    TROUPE_CHECK(is_chief());
    const auto collected = client_->collect(install());
    detail::merge_state(*state.replicas.front(), served_, collected.states);
    copy_to_all(state);
    state.step = collected.step;
    newest_ = true;
  }

  void end_training(TrainState& state, const std::string& reason) override {
    if (!is_chief() || !started_ || finished_) return;
    collect(state);
    finished_ = true;
    report_.counted = client_->finish(reason);
    report_.log();
  }

  [[nodiscard]] DistributedSplits distribute(const Splits& splits, const BatchPlan& plan) override;

  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    if (phase != Phase::train) return replicas_.run(step, state, batch, phase);
    return detail::sharing_failure(*this, [&] { return train(step, state, batch); });
  }

  void sum(Span<double>) override {}
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  void synchronize_buffers(TrainState& state) override {
    detail::make_buffers_equal(state, nullptr);
  }
  [[nodiscard]] std::string facts() const override { return finished_ ? report_.json() : ""; }

  void abort(const std::string& reason, int exit_code) noexcept override {
    if (client_) client_->abort(reason, exit_code);
  }
  void close() override {
    if (!client_) return;
    if (is_chief() && started_ && !finished_) {
      finished_ = true;
      (void)client_->finish("the chief has ended");
    }
    client_->close();
  }

 private:
  static constexpr std::int64_t kEndless = std::int64_t{1} << 60;  // as far as servers count

  [[nodiscard]] int servers() const { return static_cast<int>(options_.cluster.servers.size()); }
  [[nodiscard]] ServerClient::Install install() {
    return [this](const RowBlock& block) { shared_.exchange.install(block); };
  }

  [[nodiscard]] std::vector<StepResult> train(const Step& step, TrainState& state,
                                              const DistributedBatch& batch);
  using Rates = std::vector<double>;  // of all optimisers' groups, in order
  static Rates rates_of(Replica& replica);
  /// Other workers do not see a checkpoint: their learning rates, create_model's, are the chief's.
  void keep_rates(Replica& replica) const;
  /// Gives every replica the first one's parameters; buffers are each one's own.
  static void copy_to_all(const TrainState& state);

  const StrategyOptions options_;
  const Pace pace_;
  SharedUpdate shared_;  // before replicas_, which refer to it
  detail::LocalReplicas replicas_;
  detail::ServedParameters served_;
  std::unique_ptr<ServerClient> client_;
  detail::ServerReport report_;
  Rates rates_;  // create_model's
  bool started_ = false;
  bool begun_ = false;   // a step, and it has not ended
  bool newest_ = false;  // the chief has asked for no step since it collected
  bool finished_ = false;
};

DistributedSplits ParameterServerStrategy::distribute(const Splits& splits, const BatchPlan& plan) {
  const int local = local_replicas();
  const auto whole = [&](const std::shared_ptr<const Dataset>& dataset) {
    std::optional<DistributedDataset> data;
    if (dataset == nullptr) return data;
    const ShardPlan shards({dataset->size(), plan.global_batch, local, plan.seed, Shuffle::no});
    data.emplace(dataset, shards, 0, local);
    return data;
  };
  DistributedSplits data{std::nullopt, whole(splits.validation), whole(splits.test)};
  if (splits.train != nullptr) {
    // Asynchronous: a step of the plan is one batch for each worker, which takes it in its own
    // time.
    const std::int64_t batches = pace_.synchronous() ? 1 : world_size();
    const ShardPlan shards({splits.train->size(), plan.global_batch * batches, world_size() * local,
                            plan.seed, Shuffle::yes});
    data.train.emplace(splits.train, shards, rank() * local, local);
  }
  return data;
}

std::vector<StepResult> ParameterServerStrategy::train(const Step& step, TrainState& state,
                                                       const DistributedBatch& batch) {
  if (!std::exchange(begun_, false)) {
    throw ConfigError("a training step was run that was not begun.",
                      "call strategy->begin_step(state) before each, and end where it gives none: "
                      "see examples/custom_loop.");
  }
  DistributedBatch own = batch;
  std::int64_t examples = 0;
  for (const Batch& share : own.replicas) examples += share.examples();
  if (!pace_.synchronous()) {
    // Without examples all are stand-ins: no gradient is pushed, and nothing is divided by this.
    own.global_examples = std::max<std::int64_t>(examples, 1);
    for (Batch& share : own.replicas) share.global_examples = own.global_examples;
  }
  shared_.exchange.begin_batch(examples, own.global_examples);
  auto results = replicas_.run(step, state, own, Phase::train);
  client_->end();
  report_.add_step(*client_);
  if (examples == 0 || examples == own.global_examples) return results;
  // What a worker can say is the mean over its own examples.
  const double share = static_cast<double>(own.global_examples) / static_cast<double>(examples);
  for (StepResult& result : results) {
    for (auto& [name, loss] : result.losses) loss = loss * share;
  }
  return results;
}

ParameterServerStrategy::Rates ParameterServerStrategy::rates_of(Replica& replica) {
  Rates rates;
  for (const auto& name : replica.optimizer_names()) {
    for (const auto& group : replica.optimizer(name).param_groups()) {
      rates.push_back(group.options().get_lr());
    }
  }
  return rates;
}

void ParameterServerStrategy::keep_rates(Replica& replica) const {
  if (rates_of(replica) == rates_) return;
  log_warning("the learning rates are create_model's, not the checkpoint's: workers set their own");
  auto rate = rates_.begin();
  for (const auto& name : replica.optimizer_names()) {
    for (auto& group : replica.optimizer(name).param_groups()) group.options().set_lr(*rate++);
  }
}

void ParameterServerStrategy::copy_to_all(const TrainState& state) {
  if (state.replicas.size() == 1) return;
  const torch::NoGradGuard no_grad;
  const auto from = state.replicas.front()->parameters();
  for (std::size_t i = 1; i < state.replicas.size(); ++i) {
    const auto into = state.replicas[i]->parameters();
    for (std::size_t k = 0; k < from.size(); ++k) into[k].second.copy_(from[k].second);
  }
}

/// Nothing is computed in a server's replica.
class NoUpdate final : public ParameterUpdate {
 public:
  void reduce(const std::vector<NamedTensor>&) override { TROUPE_CHECK(false); }
};

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const StrategyOptions& options) {
  return std::make_unique<ParameterServerStrategy>(options);
}

void serve_parameters(const Hooks& hooks, const StrategyOptions& options) {
  const Cluster& cluster = options.cluster;
  if (!cluster.is_server()) {
    throw ConfigError("serve_parameters was called in " + cluster.task() + ", which is no server.",
                      "call serve_if_server, which looks.");
  }
  detail::check_server_options(options);
  NoUpdate none;
  const auto replica = detail::make_replica(hooks, ReplicaPlace(), /*seed=*/0, none, options.step);
  const JoinTerms terms = detail::terms_of(options, *replica);
  const auto served =
      detail::serve(*replica, options.servers, static_cast<int>(cluster.servers.size()));
  detail::TensorStore store(*replica, served, cluster.server);
  ParameterServer server(cluster, options.group, detail::pace_of(options.servers), served.model,
                         store);
  log_info("parameter server ", cluster.server + 1, " of ", cluster.servers.size(), ": ",
           served.model.shards.size(), " shards in all");
  server.run(terms);
}

bool serve_if_server(const Hooks& hooks, const StrategyOptions& options) {
  if (!options.cluster.is_server()) return false;
  (void)configure_compute_threads(
      options.threads,
      static_cast<int>(options.cluster.servers.size()) + options.cluster.world_size(), 1);
  serve_parameters(hooks, options);
  return true;
}

}  // namespace troupe
