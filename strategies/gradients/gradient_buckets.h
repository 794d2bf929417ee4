// GradientBuckets: the one bridge between a replica's gradients and the flat tensors that replicas
// and workers add up.
//
// All gradients of one optimiser and dtype (float32, float64) lie in one flat tensor, which is
// summed in one go, or in buckets while backward still makes the gradients of the layers below
// (docs/training_step.md). Which of the two, and how large the buckets are, changes no bit: values
// are added element by element, in the order of ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hooks/parameter_update.h"
#include "options/strategy_options.h"
#include "strategies/gradients/bucket_thread.h"
#include "strategies/gradients/flat_gradients.h"
#include "strategies/gradients/overlap_choice.h"
#include "strategies/gradients/replica_sum.h"

namespace troupe {

/// Sums gradients over all replicas. One per replica; used by the thread that runs it.
class GradientBuckets final : public ParameterUpdate {
 public:
  struct Place {
    int replica = 0;          // among those of this worker
    int first = 0;            // replica 0's number among those of all workers
    int count = 1;            // replicas of all workers
    bool one_machine = true;  // where all workers are, as far as this one can tell
  };

  /// `sum` outlives this object.
  GradientBuckets(detail::ReplicaSum& sum, const Place& place, const BucketOptions& options)
      : sum_(sum), place_(place), options_(options), choice_(options.overlap) {}

  void begin_backward(const std::vector<NamedTensor>& parameters,
                      const Backward& backward) override;

  /// After it, gradients are views into the buckets, valid until the same parameters are reduced
  /// again. Sparse gradients are made dense. Works without begin_backward(), too.
  /// Throws: also ConfigError for a dtype other than float32 and float64.
  void reduce(const std::vector<NamedTensor>& parameters) override;

  /// As BucketOptions::fused_step says.
  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override;

  /// Throws: ConfigError while buckets are reduced.
  void sum(const at::Tensor& flat, const std::string& what) override;

  /// After each training step that took `seconds`: what Overlap::automatic learns from.
  /// Collective: yes.
  void end_step(double seconds);

  /// Whether a sum is under way that nobody waits for: backward has thrown.
  [[nodiscard]] bool is_abandoned() const { return thread_.is_open(); }

  /// Lets the buckets of former models go.
  void forget();

 private:
  /// Gradients of one optimiser and dtype.
  struct Part {
    std::shared_ptr<detail::FlatGradients> gradients;
    detail::Summand summand;
  };
  /// Gradients of one optimiser.
  struct Set {
    std::vector<Part> parts;
    bool planned = false;    // the order in which they are made is known, or does not matter
    bool in_pieces = false;  // some parameter's are complete only when backward is over
    bool overlaps = false;   // in the step under way
  };

  [[nodiscard]] Set& set_of(const std::vector<NamedTensor>& parameters);
  [[nodiscard]] Part make_part(std::vector<NamedTensor> parameters);
  void reduce_bucket(const Part& part, std::size_t bucket);
  void reduce_overlapped(const Part& part);
  void plan(Set& set);
  [[nodiscard]] static bool can_overlap(const Set& set);

  detail::ReplicaSum& sum_;
  const Place place_;
  const BucketOptions options_;
  detail::OverlapChoice choice_;
  // By all their parameters: two optimisers' gradients never share memory.
  std::map<std::vector<const void*>, Set> sets_;
  Set* armed_ = nullptr;         // of the backward pass under way
  detail::BucketThread thread_;  // last: it reads what is above
};

}  // namespace troupe
