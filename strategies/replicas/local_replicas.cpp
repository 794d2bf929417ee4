#include "troupe/strategies/replicas/local_replicas.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/machine.h"
#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/hooks/hook_error.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/autocast.h"
#include "troupe/hooks/todo.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/gradients/optimizer_shards.h"
#include "troupe/strategies/replicas/random_fill.h"
#include "troupe/strategies/replicas/replica_memory.h"

namespace troupe::detail {
namespace {

/// Part `part` of `parts` that differ by one example at most. A part without an example is
/// padding with those of the first part: every replica takes the same number of parts, so that
/// what is collective in them stays in order.
Batch part_of(const Batch& batch, std::int64_t part, std::int64_t parts) {
  const std::int64_t all = batch.fields.front().size(0);
  const auto begin_of = [&](std::int64_t i) { return all / parts * i + std::min(i, all % parts); };
  Batch result = batch;
  std::int64_t begin = begin_of(part);
  std::int64_t count = begin_of(part + 1) - begin;
  if (count == 0) {
    result.stand_in = true;
    begin = 0;
    count = begin_of(1);
  }
  for (at::Tensor& field : result.fields) field = field.narrow(0, begin, count);
  // A step may change its fields in place, and the first part's serve several.
  if (all < parts) {
    for (at::Tensor& field : result.fields) field = field.clone();
  }
  return result;
}

void detach(StepResult& result, const Batch& batch) {
  for (auto& [name, loss] : result.losses) {
    loss = in_float32(batch.stand_in ? torch::zeros_like(loss) : loss.detach());
  }
}

/// The shares of the parts of a step add up as those of replicas do.
void add(StepResult& total, const StepResult& part) {
  const bool same =
      std::equal(total.losses.begin(), total.losses.end(), part.losses.begin(), part.losses.end(),
                 [](const auto& a, const auto& b) { return a.first == b.first; });
  if (!same) {
    throw ConfigError("train_step returned other losses in one part of a step than in another.",
                      "with --accumulate, return losses of the same names in every part.");
  }
  for (std::size_t i = 0; i < total.losses.size(); ++i) {
    total.losses[i].second = total.losses[i].second + part.losses[i].second;
  }
}

}  // namespace

std::unique_ptr<Replica> make_replica(const Hooks& hooks, const ReplicaPlace& place,
                                      std::uint64_t seed, ParameterUpdate& update,
                                      const StepOptions& options) {
  try {
    if (place.index == 0) check_precision(place.device, options.precision);  // says it once
    torch::manual_seed(seed);
    const auto made = [](const char* hook, auto&& create) {
      return in_user_code(create, [&] { return text(hook, " failed"); });
    };
    Trainable trainable = made("create_model", [&] { return hooks.create_model(); });
    LossSet losses = made("create_losses", [&] { return hooks.create_losses(); });
    const MetricSet metrics = made("create_metrics", [&] { return hooks.create_metrics(); });
    return std::make_unique<Replica>(std::move(trainable), std::move(losses), metrics, place,
                                     update, options);
  } catch (const TodoError&) {
    check_no_open_todos(hooks);  // says all of them at once
    throw;
  }
}

StepResult run_on_replica(const Step& step, Replica& replica, const DistributedBatch& batch,
                          std::size_t share, Phase phase, std::int64_t steps) {
  const auto where = [&] {
    return describe_call(phase, steps, batch, share, replica.place().count);
  };
  Batch on_device = batch.replicas[share];
  // The loader leaves the memory that a copy still reads alone.
  for (at::Tensor& field : on_device.fields)
    field = field.to(replica.place().device, /*non_blocking=*/true);
  ReplicaDriver driver(replica);
  const at::AutoGradMode gradients(phase == Phase::train);
  const ReplicaScope scope(replica);
  const std::int64_t parts =
      phase == Phase::train ? ReplicaDriver(replica).step_options().accumulate : 1;
  StepResult total;
  for (std::int64_t part = 0; part < parts; ++part) {
    const Batch own = parts == 1 ? on_device : part_of(on_device, part, parts);
    driver.begin_step({phase, own.global_examples, own.fields.front().size(0), own.stand_in, part,
                       parts, steps, batch.epoch});
    StepResult result = in_user_code(
        [&] {
          const Traced traced(hook_of(phase));
          return step(replica, own);
        },
        where, fix_for(batch.replicas[share]));
    driver.check_result(result);
    driver.describe(result);
    detach(result, own);
    if (part == 0) {
      total = std::move(result);
    } else {
      add(total, result);
    }
  }
  driver.end_step(on_device);
  driver.divide(total);
  return total;
}

namespace {

ReplicaThreads::Options threads_of(const GroupView& view, const StrategyOptions& options) {
  ReplicaThreads::Options threads;
  threads.replicas = view.local_replicas();
  threads.first = view.first_replica();
  threads.timeout = options.group.collective_timeout;
  const int here = threads.replicas * workers_here(options.cluster);
  if (here <= inspect_cores().usable) threads.spin = options.group.arrival_spin;
  // OpenMP keeps a pool and a number per thread. With LibTorch 1.13 a new thread takes over the
  // process's number at its first operation; not every build promises that.
  prepare_replica_memory(threads.replicas - 1);
  threads.start_thread = [count = at::get_num_threads()](int replica) {
    name_this_thread("replica thread");
    at::set_num_threads(count);
    use_replica_memory(replica - 1);
  };
  return threads;
}

void check_equal_models(const TrainState& state) {
  const auto expected = signature(state_of(*state.replicas.front()));
  for (const auto& replica : state.replicas) {
    const auto found = first_difference(expected, signature(state_of(*replica)));
    if (!found) continue;
    throw ConfigError(text("the model of replica ", replica->place().index,
                           " differs from replica ", state.replicas.front()->place().index,
                           "'s: ", found->worker, " where that has ", found->chief, "."),
                      "make create_model a function of the options alone.");
  }
}

}  // namespace

void run_replicas(ReplicaThreads& threads, const std::vector<c10::Device>& devices,
                  const std::function<void(int)>& work) {
  // Modes and profilers that the caller has switched on are switched on for its replicas.
  const at::ThreadLocalState callers;
  threads.run([&](int replica) {
    const c10::Device& own = devices[static_cast<std::size_t>(replica)];
    std::optional<at::ThreadLocalStateGuard> guard;
    if (replica != 0) guard.emplace(callers);
    c10::OptionalDeviceGuard device;  // kCUDA without a number means the replica's GPU in its hooks
    if (!own.is_cpu()) device.reset_device(own);
    work(replica);
  });
}

LocalReplicas::LocalReplicas(const GroupView& view, const StrategyOptions& options,
                             const MakeUpdate& make_update)
    : view_(view),
      shards_(options.shard_optimizer ? view.replicas() : 1),
      step_(options.step),
      threads_(threads_of(view, options)),
      sum_(threads_, view.hosting ? view.hosting->devices : TreeCut(threads_.size())),
      generator_(view.devices) {
  for (int i = 0; i < size(); ++i) {
    if (view_.hosting) {
      auto block = std::make_unique<BlockSum>(sum_, place(i), options.buckets);
      blocks_.push_back(block.get());
      updates_.push_back(std::move(block));
    } else {
      updates_.push_back(make_update
                             ? make_update(sum_, place(i), options.buckets)
                             : std::make_unique<OverlappedSum>(sum_, place(i), options.buckets));
    }
  }
  if (view_.hosting) virtual_.emplace(view_, threads_, sum_, blocks_, options.check_repeat);
}

OverlappedSum::Place LocalReplicas::place(int replica) const {
  const int count = view_.replicas();
  return {replica, view_.first_replica(), view_.hosting ? view_.hosting->virtual_replicas : count,
          shards_, view_.hosting ? count : 0};
}

void LocalReplicas::move_to(const GroupView& view) {
  view_ = view;
  sum_.use(view.hosting->devices);
  for (int i = 0; i < size(); ++i) blocks_[static_cast<std::size_t>(i)]->move_to(place(i));
}

TrainState LocalReplicas::make(const Hooks& hooks, std::uint64_t seed) {
  TrainState state;
  state.optimizer_shards = shards_;
  state.after_step = [&hooks](Replica& replica) {
    const torch::NoGradGuard no_grad;
    in_user_code([&] { hooks.after_step(replica); },
                 [&] {
                   return text("after_step failed after ", replica.progress().step,
                               " steps of training, replica ", replica.place().index, " of ",
                               replica.place().count);
                 });
  };
  for (int i = 0; i < size(); ++i) {
    const auto own = static_cast<std::size_t>(i);
    updates_[own]->forget();
    const ReplicaPlace place =
        view_.hosting
            ? ReplicaPlace{view_.hosting->of_device(i).begin, view_.hosting->virtual_replicas,
                           view_.devices[own]}
            : ReplicaPlace{view_.first_replica() + i, view_.replicas(), view_.devices[own]};
    state.replicas.push_back(make_replica(hooks, place, seed, *updates_[own], step_));
  }
  check_equal_models(state);
  if (shards_ > 1)
    check_sharding(*state.replicas.front(), shards_, /*logs=*/view_.first_replica() == 0);
  copy_first_to_all(state);
  start_random_streams(state, seed);
  if (virtual_) virtual_->begin(state, seed);
  return state;
}

std::vector<StepResult> LocalReplicas::run(const Step& step, TrainState& state,
                                           const DistributedBatch& batch, Phase phase) {
  TROUPE_CHECK_EQ(state.replicas.size(), static_cast<std::size_t>(size()));
  if (virtual_) return virtual_->run(step, state, batch, phase);
  TROUPE_CHECK_EQ(batch.replicas.size(), state.replicas.size());
  std::vector<StepResult> results(state.replicas.size());
  const auto run_one = [&](int replica) {
    const auto own = static_cast<std::size_t>(replica);
    results[own] = run_on_replica(step, *state.replicas[own], batch, own, phase, state.step);
    if (phase == Phase::train && state.after_step) state.after_step(*state.replicas[own]);
  };
  run_replicas(threads_, view_.devices, [&](int replica) {
    if (replica > 0) return run_one(replica);
    generator_.watch(phase, [&] { run_one(replica); });
  });
  if (!generator_.draws().empty() && view_.first_replica() == 0) {
    log_warning(generator_.draws(),
                ": two runs of the same seed will differ. With one replica per worker they do not");
  }
  return results;
}

void copy_first_to_all(const TrainState& state) {
  const auto from = state_of(*state.replicas.front());
  for (const auto& replica : state.replicas) copy_values(from, state_of(*replica));
}

}  // namespace troupe::detail
