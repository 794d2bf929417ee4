#include "strategies/replicas/replica_runner.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "hooks/autocast.h"
#include "hooks/replica_driver.h"
#include "hooks/todo.h"

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

void check_and_detach(StepResult& result, const Batch& batch, Phase phase) {
  for (auto& [name, loss] : result.losses) {
    if (!loss.defined() || loss.numel() != 1) {
      throw ConfigError(
          text("the ", to_string(phase), " step returned loss \"", name, "\" of shape ",
               loss.defined() ? text(loss.sizes()) : "undefined", "."),
          "return the scalar that replica.global_mean gives.");
    }
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
    auto replica = std::make_unique<Replica>(hooks.create_model(), hooks.create_losses(),
                                             hooks.create_metrics(), place, update, options);
    torch::manual_seed(seed + 1 + static_cast<std::uint64_t>(place.index));
    return replica;
  } catch (const TodoError&) {
    check_no_open_todos(hooks);  // says all of them at once
    throw;
  }
}

StepResult run_on_replica(const Step& step, Replica& replica, const Batch& batch, Phase phase) {
  Batch on_device = batch;
  for (at::Tensor& field : on_device.fields) field = field.to(replica.place().device);
  ReplicaDriver driver(replica);
  const at::AutoGradMode gradients(phase == Phase::train);
  const ReplicaScope scope(replica);
  const std::int64_t parts = phase == Phase::train ? replica.step_options().accumulate : 1;
  StepResult total;
  for (std::int64_t part = 0; part < parts; ++part) {
    const Batch own = parts == 1 ? on_device : part_of(on_device, part, parts);
    driver.begin_step({phase, own.global_examples, own.fields.front().size(0),
                       own.stand_in ? StepContext::Batch::padding : StepContext::Batch::own, part,
                       parts});
    StepResult result = step(replica, own);
    check_and_detach(result, own, phase);
    if (part == 0) {
      total = std::move(result);
    } else {
      add(total, result);
    }
  }
  driver.end_step();
  return total;
}

}  // namespace troupe::detail
