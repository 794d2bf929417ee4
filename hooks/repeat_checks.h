// RepeatChecks: where train_step is called several times for one step (--accumulate,
// --virtual-replicas), finds what it does each time and means once: changes of optimisers' options,
// of tensors that no optimiser owns, and second updates. Thread rule: the replica's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/hooks/phase.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe::detail {

class RepeatChecks {
 public:
  /// `unowned`: parameters of no optimiser.
  explicit RepeatChecks(std::vector<NamedTensor> unowned) : unowned_(std::move(unowned)) {}

  /// From now on train_step is called once for each of several virtual replicas. The parts of a
  /// step say so themselves.
  void expect() { expected_ = true; }
  /// Whether the present step is one of several calls.
  [[nodiscard]] bool is_repeated() const {
    return context_.phase == Phase::train && (expected_ || context_.parts > 1);
  }

  /// Before each part of a step.
  void begin(const StepContext& context);
  /// Throws: ConfigError for a second update by an optimiser in one step, since the step's losses
  /// are all computed before the first one.
  void refuse_second_update(const std::string& optimizer) const;
  /// After each call, if is_repeated(): `options` are those of all optimisers, in order.
  /// Throws: ConfigError if a step's second call has changed what its first call had left.
  void after_call(const std::vector<double>& options);
  /// After the last part. Throws: ConfigError if a parameter of no optimiser has changed.
  void end() const;

 private:
  const std::vector<NamedTensor> unowned_;
  bool expected_ = false;
  StepContext context_;
  std::int64_t step_ = -1;               // that calls_ are of
  int calls_ = 0;                        // of train_step
  std::vector<double> options_;          // after the first of them
  std::vector<std::uint32_t> versions_;  // of unowned_, before the step
};

}  // namespace troupe::detail
