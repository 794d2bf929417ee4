#include "troupe/strategies/parameter_server/server_pace.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/data/data_digest.h"
#include "troupe/data/shard_plan.h"
#include "troupe/strategies/parameter_server/shard_states.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kEndless = std::int64_t{1} << 60;  // as far as servers count

/// Gives every replica the first one's parameters; buffers are each one's own.
void copy_to_all(const TrainState& state) {
  const auto from = state.replicas.front()->parameters();
  for (const auto& replica : state.replicas) copy_values(from, replica->parameters());
}

}  // namespace

ServerPace::ServerPace(const StrategyOptions& options, ServerExchange& exchange)
    : Pace(options.cluster.tasks()),
      options_(options),
      chief_(options.cluster.rank == 0),
      exchange_(exchange) {}

void ServerPace::join(Replica& replica) {
  if (client_) {
    throw ConfigError("training was started twice with the same parameter servers.",
                      "train once per process: servers end with the training they served.");
  }
  served_ = serve(replica, options_.servers, static_cast<int>(options_.cluster.servers.size()));
  client_ = std::make_unique<ServerClient>(options_.cluster, options_.group, options_.servers,
                                           served_.model);
  client_->join(terms_of(options_, replica));
  exchange_.attach(served_, *client_);
  report_.dense_step = served_.trained_bytes();
  rates_ = rates_of(replica);
}

void ServerPace::take_step() {
  if (std::exchange(begun_, false)) return;
  throw ConfigError("a training step ran without having been started.",
                    "call strategy->pace().next_step(state) before each, and end where it gives "
                    "none: see examples/custom_loop.");
}

void ServerPace::end_step() {
  client_->end();
  report_.add_step(*client_);
}

void ServerPace::abort(const std::string& reason, int exit_code) noexcept {
  if (client_) client_->abort(reason, exit_code);
}

void ServerPace::close() {
  if (!client_) return;
  if (chief_ && started_ && !finished_) {
    finished_ = true;
    (void)client_->finish("the chief has ended");
  }
  client_->close();
}

Pace::Counts ServerPace::counts(const DistributedDataset& train) const {
  const int workers = options_.cluster.world_size();
  const int local = options_.local_replicas();
  if (!train.steps_per_epoch()) {
    throw ConfigError(
        "training on a stream with parameter servers: they count the steps of an "
        "epoch, which are unknown until it ends.",
        "use --strategy multi-worker, or a data set whose size is known.");
  }
  const std::int64_t steps = *train.steps_per_epoch();
  if (synchronous() || workers == 1 || steps == 0) return {1, steps, false};
  std::int64_t in_last = 0;  // workers that the last step has examples for
  for (int worker = 0; worker < workers; ++worker) {
    if (train.plan().share(steps - 1, worker * local).count > 0) ++in_last;
  }
  if (steps == 1 && in_last < workers) {
    throw ConfigError(
        text("there are ", train.examples(), " training examples in batches of ",
             train.global_batch_size() / workers, ": some of the ", workers, " workers have none."),
        "start fewer workers, or lower --batch-size.");
  }
  return {workers, (steps - 1) * workers + in_last, false};
}

void ServerPace::require(Need need, const std::string& what) const {
  const char* why = "";
  switch (need) {
    case Need::every_update:
      why = "it looks at every update, and no worker sees them all";
      break;
    case Need::shared_validation:
      why = "the chief alone validates, and the other workers would not follow";
      break;
    case Need::last_step:
      why = "only the chief, which has the checkpoint, knows which step is the last one";
      break;
  }
  throw ConfigError(text(what, " with parameter servers: ", why, "."),
                    need == Need::last_step
                        ? "set --decay-steps, or limit training by --max-steps or --epochs."
                        : "leave it out, or use --strategy multi-worker, whose workers hold the "
                          "weights themselves.");
}

void ServerPace::start(TrainState& state, const DistributedDataset& train, std::int64_t last_step) {
  if (chief_) {
    keep_rates(*state.replicas.front());
    // Where training has reached its end already there is nothing left, not less than nothing.
    const int servers = static_cast<int>(options_.cluster.servers.size());
    client_->start(split_state(*state.replicas.front(), served_, servers), state.step,
                   std::clamp(last_step, state.step, kEndless), train.digest());
  } else {
    state.step = client_->wait_for_start();
    if (const auto found = data_difference(train.digest(), client_->chiefs_data()))
      throw other_data(options_.cluster.task(), *found);
  }
  state.position = place_at(state.step, train);
  started_ = true;
}

std::optional<std::int64_t> ServerPace::next_step(TrainState& state) {
  const StepAnswer begun = client_->begin(install());
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

std::optional<std::int64_t> ServerPace::examples_of(const DistributedBatch& batch) const {
  std::int64_t examples = 0;
  for (const Batch& own : batch.replicas) examples += own.examples();
  // Synchronously, the others wait for this worker's part of a step though it be empty.
  if (examples == 0 && !synchronous()) return std::nullopt;
  return examples;
}

void ServerPace::collect(TrainState& state) {
  // What was validated is what is saved: without a step in between it stays.
  if (!started_ || finished_ || newest_) return;
  TROUPE_CHECK(chief_);
  const auto collected = client_->collect(install());
  merge_state(*state.replicas.front(), served_, collected.states);
  copy_to_all(state);
  state.step = collected.step;
  newest_ = true;
}

void ServerPace::end(TrainState& state, const std::string& reason) {
  if (!chief_ || !started_ || finished_) return;
  collect(state);
  finished_ = true;
  report_.counted = client_->finish(reason);
  report_.log();
}

ServerPace::Rates ServerPace::rates_of(Replica& replica) {
  Rates rates;
  for (const auto& name : replica.optimizer_names()) {
    for (const auto& group : replica.optimizer(name).param_groups()) {
      rates.push_back(group.options().get_lr());
    }
  }
  return rates;
}

void ServerPace::keep_rates(Replica& replica) const {
  if (rates_of(replica) == rates_) return;
  log_warning("the learning rates are create_model's, not the checkpoint's: workers set their own");
  auto rate = rates_.begin();
  for (const auto& name : replica.optimizer_names()) {
    for (auto& group : replica.optimizer(name).param_groups()) group.options().set_lr(*rate++);
  }
}

DataPosition ServerPace::place_at(std::int64_t updates, const DistributedDataset& train) const {
  const Counts each = counts(train);
  const std::int64_t epoch = updates / *each.updates_per_epoch;
  const std::int64_t within = updates % *each.updates_per_epoch;
  // The end of an epoch is its last place, not the next one's first.
  if (updates > 0 && within == 0) return {epoch - 1, *train.steps_per_epoch(), true};
  return {epoch, within / each.updates_per_step};
}

ServerClient::Install ServerPace::install() {
  return [this](const RowBlock& block) { exchange_.install(block); };
}

}  // namespace troupe::detail
