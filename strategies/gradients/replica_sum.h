// ReplicaSum: flat gradients added up over the replicas of a worker in memory, then once over the
// workers; and values of which each replica has a part, brought to all. No sockets where there is
// one worker.
//
// Threads: add_up() is called by every replica on its own thread, inside ReplicaThreads::run().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "troupe/distributed/group/tree_cut.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/replica_threads.h"
#include "troupe/strategies/wait_meter.h"

namespace troupe::detail {

class ReplicaSum {
 public:
  /// A replica's among all whose gradients are added.
  struct Place {
    int replica = 0;  // among those of this worker
    int first = 0;    // replica 0's number among those of all workers
    int count = 1;    // replicas of all workers
    int shards = 1;   // that optimisers' state is divided into, by replica; 1: it is not
    int devices = 0;  // of all workers, that compute virtual replicas; 0: there are none
    [[nodiscard]] int own() const { return first + replica; }
  };

  /// `threads` outlives this object; `cut` is the order in which their replicas are added. The
  /// worker is alone until use() is called.
  ReplicaSum(ReplicaThreads& threads, TreeCut cut);

  /// From now on sums continue over the workers, by `engine`, which outlives this object.
  /// `during_backward`: gradients are summed then, where they can be; the same on every worker.
  /// `waits`: what sums over the workers add to.
  void use(Engine& engine, bool during_backward, std::shared_ptr<WaitMeter> waits) {
    engine_ = &engine;
    during_backward_ = during_backward;
    waits_ = std::move(waits);
  }

  /// Replaces `flat` [n], contiguous, float32 or float64, by its sum over all replicas of all
  /// workers; every replica ends with the same bits. Replicas are added in the order of the cut,
  /// whatever thread is first, so a run repeats bit for bit; where every worker has the same power
  /// of two of them, the sum over the workers continues in that order over all replicas. `summand`
  /// says what the values are. Shapes: the same n on every replica. Collective: yes. Throws: as
  /// ReplicaThreads::meet and Engine::all_reduce. Cost: each replica adds one slice for all; two
  /// meetings, four with an engine.
  void add_up(int replica, const at::Tensor& flat, const Summand& summand);

  /// The first half of add_up(): replaces this replica's part of `flat` [n], contiguous, on the
  /// CPU, float32 or float64, by its sum over all replicas of all workers, with the bits of
  /// add_up(); the other parts are used up. `parts` are by replica of all workers. Shapes: the same
  /// n and ends on every replica. Collective: yes.  Throws: as add_up.  Cost: two meetings, four
  /// with an engine.
  void reduce_scatter(int replica, const at::Tensor& flat, const Parts& parts,
                      const Summand& summand);
  /// Whether that is cheaper than add_up().
  [[nodiscard]] bool can_scatter() const { return engine_ == nullptr || engine_->can_scatter(); }

  /// The second half of add_up(), for values that the worker has one of: replaces `flat` by its sum
  /// over the workers.  Collective: yes, by one thread.  Throws: as Engine::all_reduce.
  void add_over_workers(const at::Tensor& flat, const Summand& summand);

  /// Replaces every replica's part of `flat` [n], contiguous, float32 or float64, by that replica's
  /// values of it; `parts` are by replica of all workers. Shapes: the same n and ends on every
  /// replica. Collective: yes.  Throws: as add_up.  Cost: two meetings, three with an engine.
  void all_gather(int replica, const at::Tensor& flat, const Parts& parts, const Summand& summand);

  /// Memory for a replica's values of `summand`, [count], as Engine::make_buffer gives it to the
  /// replica that speaks for the worker. Collective: yes.  Throws: as Engine::make_buffer.
  [[nodiscard]] at::Tensor make_buffer(int replica, std::int64_t count,
                                       const at::TensorOptions& options, const Summand& summand);

  /// Gives every replica of this worker the first one's values of `parameters`, which are as many
  /// on each. `what` says in messages what for. Collective: yes, within the worker.  Throws: as
  /// ReplicaThreads::meet.
  void copy_first(int replica, const std::vector<NamedTensor>& parameters, const std::string& what);

  /// From now on the replicas are added in this order.
  void use(TreeCut cut) { cut_ = std::move(cut); }

  /// See Engine::is_exact.
  [[nodiscard]] bool is_exact() const { return engine_ == nullptr || engine_->is_exact(); }
  /// Whether add_up() is to run on another thread while this one computes: one replica is alone in
  /// its worker, and the engine can. The same on every worker.
  [[nodiscard]] bool overlaps() const {
    return during_backward_ && threads_.size() == 1 && engine_->can_overlap();
  }
  [[nodiscard]] ReplicaThreads& threads() { return threads_; }
  /// After use().
  [[nodiscard]] WaitMeter& waits() { return *waits_; }

 private:
  /// The part of the values that this replica adds for all.
  void add_slice(int replica);
  /// This replica's part of all values, into its own.
  void add_part(int replica, const Parts& parts);
  [[nodiscard]] Parts parts_of_workers(const Parts& parts) const;
  void scatter_over_workers(const at::Tensor& flat, const Parts& parts, const Summand& summand);
  /// Runs a collective of the engine's, whose time counts as a wait. The group tells summands
  /// apart, and has no words for them: an error says them.
  template <class Collective>
  void with_engine(const Summand& summand, const char* what, const at::Tensor& flat,
                   Collective&& collective);

  ReplicaThreads& threads_;
  TreeCut cut_;
  Engine* engine_ = nullptr;
  bool during_backward_ = false;
  // By replica; each writes its own entry before a meeting and reads the others' after it.
  std::vector<at::Tensor> flats_;
  const std::vector<NamedTensor>* first_ = nullptr;  // replica 0's, for the others to copy
  std::shared_ptr<WaitMeter> waits_;
};

}  // namespace troupe::detail
