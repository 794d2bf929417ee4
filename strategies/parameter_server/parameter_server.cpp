#include "troupe/strategies/parameter_server/parameter_server.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/step_weights.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/gradients/flat_gradients.h"
#include "troupe/strategies/gradients/overlapped_sum.h"
#include "troupe/strategies/parameter_server/served_parameters.h"
#include "troupe/strategies/parameter_server/server_exchange.h"
#include "troupe/strategies/parameter_server/server_pace.h"
#include "troupe/strategies/parameter_server/tensor_store.h"
#include "troupe/strategies/parameter_server/wire/server_process.h"
#include "troupe/strategies/replicas/local_replicas.h"
#include "troupe/strategies/sharing_failure.h"

namespace troupe {
namespace {

/// What the replicas of one worker share; written by replica 0 between two meetings.
struct SharedUpdate {
  detail::ServerExchange exchange;
  bool push_brings_values = false;  // else the next step does
  int workers_in_sync = 1;          // that make one update together
  bool trains = false;              // the step under way is one of training
};

/// Every row once, in ascending order: what the rows of a push are.
void coalesce(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined() || !gradient.is_sparse()) continue;
    // Whole rows are what servers know; anything else is pushed dense.
    gradient = gradient.sparse_dim() == 1 ? gradient.coalesce() : gradient.to_dense();
  }
}

/// Gradients are summed over this worker's replicas, as values of its layers are: a layer that
/// normalises does not see other workers. Replica 0 pushes the gradients for all. A replica alone
/// keeps sparse gradients sparse; of several, they are made dense.
class PushedUpdate final : public detail::OverlappedSum {
 public:
  /// `sum` and `shared` outlive this object.
  PushedUpdate(detail::ReplicaSum& sum, const Place& place, const BucketOptions& options,
               SharedUpdate& shared)
      : OverlappedSum(sum, place, options), shared_(shared) {}

  /// Of a training step.
  void begin_step() { stepped_.clear(); }
  /// Nothing is taken while backward makes it.
  void begin_backward(const std::vector<NamedTensor>& /*parameters*/,
                      const Backward& /*backward*/) override {}
  void reduce(const std::vector<NamedTensor>& parameters) override {
    if (!is_alone()) {
      OverlappedSum::reduce(parameters);
      return;
    }
    const torch::NoGradGuard no_grad;
    coalesce(parameters);
    detail::check_finite_gradients(parameters);
  }
  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override {
    if (weight_) {
      const at::Tensor total =
          torch::full({1}, *std::exchange(weight_, std::nullopt), torch::kFloat64);
      OverlappedSum::sum(total, "weights of a push");
      if (place().replica == 0) shared_.exchange.set_weight(total.item<double>());
    }
    if (!stepped_.insert(name).second) {
      throw ConfigError("train_step took two steps of optimizer \"" + name +
                            "\": parameter servers make one update of a step.",
                        "take one, or use --strategy multi-worker.");
    }
    if (place().replica == 0) shared_.exchange.push(name, optimizer);
    if (shared_.push_brings_values) copy_first(parameters, "the values of a push");
  }
  void sum(const at::Tensor& flat, const std::string& what) override {
    if (needs_others()) {
      throw ConfigError(text(what, ": it needs a sum over ", shared_.workers_in_sync,
                             " workers, which no process has with synchronous parameter servers."),
                        "use --strategy multi-worker, or one worker with several --devices; in "
                        "place of SyncBatchNorm torch::nn::BatchNorm.");
    }
    OverlappedSum::sum(flat, what);
  }
  /// By the servers.
  [[nodiscard]] bool divides_later() const override { return needs_others(); }
  void take_weight(double weight) override { weight_ = weight; }

 private:
  [[nodiscard]] bool needs_others() const { return shared_.trains && shared_.workers_in_sync > 1; }

  SharedUpdate& shared_;
  std::set<std::string> stepped_;  // optimisers, in this step
  std::optional<double> weight_;   // of the next push; see take_weight()
};

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

GroupView view_of_servers(const StrategyOptions& options) {
  GroupView view = view_of(options.cluster, options);
  view.in_lockstep = options.servers.synchronous();
  return view;
}

class ParameterServerStrategy final : public Strategy {
 public:
  explicit ParameterServerStrategy(const StrategyOptions& options)
      : Strategy("parameter-server", view_of_servers(checked(options))),
        options_(options),
        pace_(options_, shared_.exchange),
        replicas_(view(), options,
                  [this](detail::ReplicaSum& sum, const detail::OverlappedSum::Place& place,
                         const BucketOptions& buckets) {
                    auto update = std::make_unique<PushedUpdate>(sum, place, buckets, shared_);
                    updates_.push_back(update.get());
                    return update;
                  }) {
    shared_.push_brings_values = pace_.synchronous();
    if (pace_.synchronous()) shared_.workers_in_sync = world_size();
  }

  [[nodiscard]] Pace& pace() override { return pace_; }

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state = replicas_.make(hooks, seed);
    pace_.join(*state.replicas.front());
    return state;
  }

  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    shared_.trains = phase == Phase::train;
    if (!shared_.trains) return replicas_.run(step, state, batch, phase);
    return detail::sharing_failure(*this, [&] { return train(step, state, batch); });
  }

  void abort(const std::string& reason, int exit_code) noexcept override {
    pace_.abort(reason, exit_code);
  }
  void close() override { pace_.close(); }

 private:
  [[nodiscard]] std::vector<StepResult> train(const Step& step, TrainState& state,
                                              const DistributedBatch& batch);

  const StrategyOptions options_;
  SharedUpdate shared_;  // before pace_ and replicas_, which refer to it
  detail::ServerPace pace_;
  std::vector<PushedUpdate*> updates_;  // the replicas'
  detail::LocalReplicas replicas_;
};

/// What a worker of several can say is the mean over its own examples, or what has weights there.
void say_own_means(const TrainState& state, std::int64_t global_examples, std::int64_t examples,
                   std::vector<StepResult>& results) {
  std::optional<double> weight;
  for (const auto& replica : state.replicas) {
    const auto own = detail::ReplicaDriver(*replica).undivided_weight();
    if (own) weight = weight.value_or(0) + *own;
  }
  const auto divisor = static_cast<double>(global_examples);
  for (StepResult& result : results) {
    if (weight) {
      detail::redivide(result, divisor, *weight);
    } else if (examples != 0 && examples != global_examples) {
      const double share = divisor / static_cast<double>(examples);
      for (auto& [name, loss] : result.losses) loss = loss * share;
    }
  }
}

std::vector<StepResult> ParameterServerStrategy::train(const Step& step, TrainState& state,
                                                       const DistributedBatch& batch) {
  pace_.take_step();
  DistributedBatch own = batch;
  std::int64_t examples = 0;
  for (const Batch& share : own.replicas) examples += share.examples();
  if (!pace_.synchronous()) {
    // Without examples all are stand-ins: no gradient is pushed, and nothing is divided by this.
    own.global_examples = std::max<std::int64_t>(examples, 1);
    for (Batch& share : own.replicas) share.global_examples = own.global_examples;
  }
  shared_.exchange.begin_batch(examples, own.global_examples);
  for (PushedUpdate* update : updates_) update->begin_step();
  auto results = replicas_.run(step, state, own, Phase::train);
  pace_.end_step();
  say_own_means(state, own.global_examples, examples, results);
  return results;
}

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const StrategyOptions& options) {
  return std::make_unique<ParameterServerStrategy>(options);
}

void serve_parameters(const Hooks& hooks, const StrategyOptions& options) {
  const Cluster& cluster = options.cluster;
  TROUPE_CHECK(cluster.is_server());
  detail::check_server_options(options);
  ParameterUpdate none;  // nothing is computed in a server's replica
  const auto replica = detail::make_replica(hooks, ReplicaPlace(), /*seed=*/0, none, options.step);
  const JoinTerms terms = detail::terms_of(options, *replica);
  const auto served =
      detail::serve(*replica, options.servers, static_cast<int>(cluster.servers.size()));
  detail::TensorStore store(*replica, served, cluster.server);
  ServerProcess server(cluster, options.group, options.servers, served.model, store);
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
