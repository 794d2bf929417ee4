// OverlappedSum: the one bridge between a replica's gradients and the flat tensors that replicas
// and workers add up, and the one owner of when that happens.
//
// All gradients of one optimiser and dtype (float32, float64) lie in one flat tensor, which is
// summed in one go after backward, or in buckets while backward still makes the gradients of the
// layers below (docs/training_step.md). Which of the two, and how large the buckets are, changes no
// bit: values are added element by element, in the order of ranks.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/gradients/bucket_thread.h"
#include "troupe/strategies/gradients/flat_gradients.h"
#include "troupe/strategies/gradients/replica_sum.h"
#include "troupe/strategies/gradients/sharded_step.h"

namespace troupe::detail {

/// Sums gradients over all replicas. One per replica; used by the thread that runs it.
class OverlappedSum : public ParameterUpdate {
 public:
  using Place = ReplicaSum::Place;

  /// `sum` outlives this object.
  OverlappedSum(ReplicaSum& sum, const Place& place, const BucketOptions& options)
      : sum_(sum), place_(place), options_(options), sharded_(sum) {}

  void begin_backward(const std::vector<NamedTensor>& parameters,
                      const Backward& backward) override;

  /// After it, gradients are views into the flat tensors, valid until the same parameters are
  /// reduced again. Sparse gradients are made dense. Works without begin_backward(), too.
  /// Throws: also ConfigError for a dtype other than float32 and float64.
  void reduce(const std::vector<NamedTensor>& parameters) override;

  [[nodiscard]] bool has_all_gradients() const override { return has_all_gradients_; }
  void keep_gradients(bool keep) override { keeps_gradients_ = keep; }

  /// As BucketOptions::fused_step says; with Place::shards as ShardedStep does.
  /// Throws: also ConfigError if it is the optimiser's first step and no replica gave a gradient.
  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override;

  /// Throws: ConfigError while buckets travel.
  void sum(const at::Tensor& flat, const std::string& what) override;

  /// Whether buckets travel that nobody waits for: backward has thrown.
  [[nodiscard]] bool is_abandoned() const { return phase_ == Phase::summing; }

  /// Lets the gradients of former models go.
  void forget();

 protected:
  /// In another group of workers, whose gradients are those of the same models.
  void move_to(const Place& place) {
    forget();
    place_ = place;
  }
  /// How gradients are summed.
  enum class Way { undecided, whole, buckets };
  /// Gradients of one optimiser and dtype.
  struct Part {
    std::shared_ptr<FlatGradients> gradients;
    Summand summand;
    std::vector<Summand> buckets;              // where they travel in buckets
    std::vector<std::shared_ptr<void>> nodes;  // they keep what watches backward
  };
  /// Gradients of one optimiser. The first sum, in one go, shows how the later ones are made.
  struct Set {
    std::vector<char> trains;  // by parameter of the optimiser; frozen ones are in no part
    std::vector<Part> parts;
    Way way = Way::undecided;
    /// Of the next pass. The first is looked at by whoever wants to see what backward made.
    bool wants_all = true;
  };

  /// See ReplicaSum::copy_first.
  void copy_first(const std::vector<NamedTensor>& parameters, const std::string& what) {
    sum_.copy_first(place_.replica, parameters, what);
  }
  [[nodiscard]] bool is_alone() const { return sum_.threads().size() == 1; }
  [[nodiscard]] const Place& place() const { return place_; }
  /// Made anew where others of the parameters are frozen than when it was made.
  [[nodiscard]] std::shared_ptr<Set> set_of(const std::vector<NamedTensor>& parameters);
  /// Sums a part over all replicas. Blocks and throws as reduce().
  void add_up(const Part& part) {
    sum_.add_up(place_.replica, part.gradients->flat(), part.summand);
  }

 private:
  /// What a backward pass is in the midst of.
  enum class Phase {
    idle,     // none is under way, or its gradients do not count
    filling,  // gradients are copied to their places as they come
    summing   // the same, and buckets travel as soon as they are complete
  };
  /// From begin_backward() to the end of reduce().
  struct Pass {
    std::shared_ptr<const Set> set;
    Way way = Way::whole;
    FlatGradients::Sums sums = FlatGradients::Sums::all;
    std::vector<std::size_t> missing;  // parameters without a gradient yet, by bucket
    std::size_t complete = 0;          // buckets
    std::vector<std::size_t> order;    // parameters, as backward made their gradients
    std::string in_pieces;             // a parameter whose gradient was added to; "": none
  };

  [[nodiscard]] Set make_set(const std::vector<NamedTensor>& parameters, std::vector<char> trains);
  [[nodiscard]] Part make_part(std::vector<NamedTensor> parameters, std::vector<int> owners);
  void watch(Part& part);
  void start(std::shared_ptr<const Set> set, Way way);
  void arrived(FlatGradients& gradients, std::size_t parameter);
  void sum_whole(const Part& part);
  void sum_bucket(const Part& part, std::size_t k, const Summand& summand);
  void sum_buckets(const Part& part);
  void decide(Set& set);

  ReplicaSum& sum_;
  Place place_;
  const BucketOptions options_;
  // By all their parameters: two optimisers' gradients never share memory.
  std::map<std::vector<const void*>, std::shared_ptr<Set>> sets_;
  std::set<std::string> stepped_;  // optimisers
  ShardedStep sharded_;
  Phase phase_ = Phase::idle;
  Pass pass_;
  bool has_all_gradients_ = true;
  bool keeps_gradients_ = false;
  BucketThread thread_;  // last: it reads what is above
};

}  // namespace troupe::detail
