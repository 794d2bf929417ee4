#include "strategies/replica_runner.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "core/error.h"
#include "core/text.h"
#include "hooks/todo.h"

namespace troupe::detail {

std::unique_ptr<Replica> make_replica(const Hooks& hooks, const ReplicaPlace& place,
                                      std::uint64_t seed, ParameterUpdate& update,
                                      const StepOptions& options) {
  try {
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
  replica.begin_step({phase, batch.global_examples, batch.fields.front().size(0), batch.stand_in});
  replica.set_training_mode(phase);
  const at::AutoGradMode gradients(phase == Phase::train);
  StepResult result = step(replica, on_device);
  for (auto& [name, loss] : result.losses) {
    if (!loss.defined() || loss.numel() != 1) {
      throw ConfigError(
          text("the ", to_string(phase), " step returned loss \"", name, "\" of shape ",
               loss.defined() ? text(loss.sizes()) : "undefined", "."),
          "return the scalar that replica.global_mean gives.");
    }
    loss = batch.stand_in ? torch::zeros_like(loss) : loss.detach();
  }
  return result;
}

}  // namespace troupe::detail
