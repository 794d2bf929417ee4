// BlockSum: the updates of a device whose virtual replicas run one after the other. The gradients
// of each are added to those before it; when all have run, each update of the step is summed over
// devices and workers, and only after the last sum do optimisers take their steps. So a step either
// has all its sums, or has changed no weight.
//
// Thread rule: the device's thread, but for take_steps(), whose thread may be another one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/replica.h"
#include "troupe/strategies/gradients/overlapped_sum.h"
#include "troupe/strategies/tensor_sums.h"

namespace troupe::detail {

class BlockSum final : public OverlappedSum {
 public:
  /// place.count is that of the virtual replicas.
  using OverlappedSum::OverlappedSum;

  /// The same device in another group of workers.
  void move_to(const Place& place) {
    begin_step();
    OverlappedSum::move_to(place);
  }

  // A step, in this order.
  /// What a failed step has left is forgotten.
  void begin_step();
  /// Inside train_step, by its apply_gradients().
  [[nodiscard]] bool postpone(const std::string& optimizer,
                              const std::vector<NamedTensor>& parameters) override;
  /// A virtual replica's train_step has returned. Throws: ConfigError where it has asked for other
  /// updates than the first one's.
  void end_replica();
  /// Instead of a virtual replica that has no examples, after the first one: its gradients are 0.
  void skip_replica();
  /// Sums every update of the step. Collective: yes.  Throws: NonFiniteError on every rank; as
  /// reduce().
  void sum_updates();
  /// Multiplies by `factor`, clips, and lets optimisers of `replica` take their steps, in the order
  /// of train_step.
  void take_steps(Replica& replica, double factor);
  /// After sum_updates(): a digest of each update's gradients, with the optimiser's name.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> digests() const;

  /// From now on in an elastic group, whose steps end with their last sum.
  void be_elastic() { is_elastic_ = true; }

  /// Layers sum over all replicas while each is in the midst of its step.
  /// Throws: ConfigError where a device has several virtual replicas, and in an elastic group.
  void sum(const at::Tensor& flat, const std::string& what) override;
  void begin_backward(const std::vector<NamedTensor>& /*parameters*/,
                      const Backward& /*backward*/) override {}
  [[nodiscard]] bool divides_later() const override { return true; }

 private:
  struct Update {
    std::string optimizer;
    const std::vector<NamedTensor>* parameters;
    std::shared_ptr<Set> set;
    std::vector<TreeSum> sums;       // by part of the set
    std::vector<at::Tensor> totals;  // the same, over all replicas
  };
  [[noreturn]] void refuse_order() const;

  std::vector<Update> updates_;  // of the step, in the order of the first virtual replica's
  std::size_t next_ = 0;         // that the present virtual replica asks for
  bool is_first_replica_ = true;
  bool is_elastic_ = false;
};

}  // namespace troupe::detail
