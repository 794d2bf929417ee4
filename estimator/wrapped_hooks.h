// WrappedHooks: another object's hooks, to override some of.
#pragma once

#include <memory>
#include <utility>

#include "hooks/hooks.h"

namespace troupe::detail {

class WrappedHooks : public Hooks {
 public:
  explicit WrappedHooks(std::shared_ptr<const Hooks> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] LossSet create_losses() const override { return inner_->create_losses(); }
  [[nodiscard]] MetricSet create_metrics() const override { return inner_->create_metrics(); }
  [[nodiscard]] Trainable create_model() const override { return inner_->create_model(); }
  [[nodiscard]] Splits create_datasets() const override { return inner_->create_datasets(); }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    return inner_->train_step(replica, batch);
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    return inner_->validation_step(replica, batch);
  }
  [[nodiscard]] StepResult test_step(Replica& replica, const Batch& batch) const override {
    return inner_->test_step(replica, batch);
  }
  [[nodiscard]] Predictions predict_step(Replica& replica, const Batch& batch) const override {
    return inner_->predict_step(replica, batch);
  }
  [[nodiscard]] const Hooks& inner() const { return *inner_; }

 private:
  std::shared_ptr<const Hooks> inner_;
};

}  // namespace troupe::detail
