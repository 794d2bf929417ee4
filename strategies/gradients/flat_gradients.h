// FlatGradients: the gradients of one optimiser and dtype in one flat tensor, which replicas and
// workers add up.
//
//   [values, as the plan lays them out][one flag per parameter][one flag]
//
// A parameter's flag is 1 where this replica has a gradient for it: that tells a parameter that
// nobody used (it keeps no gradient, as on one device) from one that only some replicas used. The
// last flag is 1 where a value is so large that a sum of them may not be finite; it is there only
// where sums are exact.
//
// While armed, each gradient is copied to its place as soon as backward has made it, while it is in
// the caches, and its own memory is let go.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hooks/parameter_update.h"
#include "strategies/gradients/gradient_plan.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

namespace troupe::detail {

class FlatGradients : public std::enable_shared_from_this<FlatGradients> {
 public:
  /// Called with the number of buckets that are complete, when it grows.
  using OnBuckets = std::function<void(std::size_t complete)>;

  /// `replicas`: how many are added up. `exact`: sums overflow only if their summands are large.
  FlatGradients(std::vector<NamedTensor> parameters, int replicas, bool exact);
  /// [values + flags]; the same on every replica.
  [[nodiscard]] std::int64_t size() const;
  /// Once, before all else. `flat` [size()].
  void use(const at::Tensor& flat);
  /// Lays the values out anew, before arm(). The plan of a new object is one bucket.
  void use(GradientPlan plan);

  /// Before a backward pass whose gradients are to be taken.
  void arm(OnBuckets on_buckets);
  /// What arm() began is over, without gradients.
  void disarm();
  /// After backward: what has not been taken yet, zero where there is none, and the flags.
  void fill();
  /// After the sum: every gradient is a view of its values; none where no replica had one. Returns
  /// false when one of them may not be finite.
  [[nodiscard]] bool give_back();

  [[nodiscard]] const at::Tensor& flat() const { return flat_; }
  /// A view of bucket `k`, the last one with the flags.
  [[nodiscard]] const at::Tensor& bucket(std::size_t k) const { return buckets_[k]; }
  [[nodiscard]] const GradientPlan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  [[nodiscard]] std::int64_t values() const;  // of all parameters
  /// Values by parameter.
  [[nodiscard]] std::vector<std::int64_t> sizes() const;
  /// Parameters in the order in which the last backward pass made their gradients.
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }
  /// The first parameter whose gradient came in more than one piece; empty: none. Such a gradient
  /// is complete only when backward is over.
  [[nodiscard]] const std::string& in_pieces() const { return in_pieces_; }

 private:
  void watch();
  void arrived(std::size_t parameter);
  void copy(std::size_t parameter);

  const std::vector<NamedTensor> parameters_;
  const bool exact_;
  const double limit_;  // of a value's magnitude, for a finite sum
  GradientPlan plan_;
  at::Tensor flat_;
  std::vector<at::Tensor> places_;                             // by parameter, of its shape
  std::vector<at::Tensor> buckets_;                            // by bucket
  std::vector<std::shared_ptr<torch::autograd::Node>> nodes_;  // they keep what watches backward

  // Of the step under way.
  bool armed_ = false;
  OnBuckets on_buckets_;
  std::vector<char> filled_;          // by parameter
  std::vector<std::size_t> missing_;  // parameters by bucket
  std::size_t complete_ = 0;          // buckets
  std::vector<std::size_t> order_;
  std::string in_pieces_;
  bool suspect_ = false;  // a value is beyond the limit
};

}  // namespace troupe::detail
