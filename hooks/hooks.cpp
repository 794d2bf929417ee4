#include "hooks/hooks.h"

#include "core/error.h"

namespace troupe {

StepResult Hooks::test_step(Replica& replica, const Batch& batch) const {
  return validation_step(replica, batch);
}

Predictions Hooks::predict_step(Replica&, const Batch&) const {
  throw ConfigError("predict_step is not written.",
                    "override it in your hooks: run the model on the batch and return "
                    "{{\"name\", tensor [B, ...]}}.");
}

}  // namespace troupe
