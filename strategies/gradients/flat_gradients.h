// FlatGradients: the gradients of one optimiser and dtype in one flat tensor, which replicas and
// workers add up: where each lies in it, and how it gets there and back; and the guard between the
// reduced gradients and the optimiser.
//
//   [values, as the plan lays them out][one flag per parameter][one flag][one flag]
//
// A parameter's flag is 1 where this replica has a gradient for it: that tells a parameter that
// no replica used (it keeps no gradient, as on one device) from one that only some used. The
// next one is 1 where a value is so large that a sum of them may not be finite; it is there only
// where sums are checked by flags. The last one is 1 where a replica wants to have all sums of the
// next pass; it is there only where replicas own parameters, and else need the sums of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/gradients/gradient_plan.h"

namespace troupe::detail {

class FlatGradients {
 public:
  /// How a sum that is not finite is found. `flags`: each value is looked at on its way into the
  /// flat tensor, for sums that overflow only if their summands are large; on the CPU. `sums`: the
  /// sum itself is looked at.
  enum class Check { flags, sums };

  /// Who takes the step of each parameter.
  struct Owners {
    std::vector<int> of;  // each parameter
    int own = 0;          // this replica
    int count = 1;        // 1: every replica takes all
  };

  /// `replicas`: how many are added up. More owners than one: of sums that are checked by flags.
  FlatGradients(std::vector<NamedTensor> parameters, int replicas, Check check, Owners owners);
  /// [values + flags]; the same on every replica.
  [[nodiscard]] std::int64_t size() const;
  /// Once, before all else. `flat` [size()].
  void use(const at::Tensor& flat);
  /// Lays the values out anew, between two sums. The plan of a new object is one bucket.
  void use(GradientPlan plan);

  /// Forgets what has been taken.
  void start();
  enum class Taken { nothing, first, again };
  /// Copies a parameter's gradient to its place, while it is in the caches, and lets its own memory
  /// go. `nothing`: it has none. `again`: it has been taken already, so backward has added to it in
  /// its place.
  [[nodiscard]] Taken take(std::size_t parameter);
  /// After backward: what has not been taken yet, zero where there is none, and the flags.
  /// `wants_all`: the last one.
  void fill(bool wants_all);
  /// Whose sums are there.
  enum class Sums { all, own };
  struct Outcome {
    bool finite = true;      // false: one of them may not be
    bool wants_all = false;  // some replica does
  };
  /// After the sum: every gradient that is there is a view of its values; none where no replica had
  /// one.
  [[nodiscard]] Outcome give_back(Sums sums);

  /// A parameter whose gradient was sparse, in any pass; null: there was none.
  [[nodiscard]] const std::string* sparse() const { return sparse_; }
  [[nodiscard]] const at::Tensor& flat() const { return flat_; }
  /// A view of bucket `k`; where there are no owners, the last one with the flags.
  [[nodiscard]] const at::Tensor& bucket(std::size_t k) const { return buckets_[k]; }
  /// A view of the flags.
  [[nodiscard]] at::Tensor flags() const;
  [[nodiscard]] const Owners& owners() const { return owners_; }
  [[nodiscard]] bool is_divided() const { return owners_.count > 1; }
  [[nodiscard]] const GradientPlan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// Values by parameter.
  [[nodiscard]] std::vector<std::int64_t> sizes() const;

 private:
  [[nodiscard]] std::int64_t values() const;  // of all parameters
  void copy(std::size_t parameter);

  const std::vector<NamedTensor> parameters_;
  const Check check_;
  const Owners owners_;
  const double limit_;  // of a value's magnitude, for a finite sum
  GradientPlan plan_;
  at::Tensor flat_;
  std::vector<at::Tensor> places_;   // by parameter, of its shape
  std::vector<at::Tensor> buckets_;  // by bucket
  std::vector<char> taken_;          // by parameter
  const std::string* sparse_ = nullptr;
  bool suspect_ = false;  // a value that was taken is beyond the limit
};

/// Throws: NonFiniteError naming the first parameter whose gradient holds an infinity or a NaN.
/// Given the reduced gradients, which are equal on all replicas, all replicas decide alike; where
/// each has those of some parameters, by `sum`, which replaces values by their sums over all.
/// Cost: one pass over each gradient; the host waits for a device once.
void check_finite_gradients(const std::vector<NamedTensor>& parameters,
                            const std::function<void(const at::Tensor&)>& sum = nullptr);

}  // namespace troupe::detail
