// Engine: the bulk data path between workers. It sums flat tensors; membership, heartbeats, abort
// and naming the worker that is late or in another collective stay with the WorkerGroup, whatever
// the engine.
//
// Which engines there are is decided when Troupe is built: "native" is always there, the others
// where LibTorch or the system has them.
// Thread rule: one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/hooks/parameter_update.h"

namespace troupe::detail {

/// What is being summed.
struct Summand {
  explicit Summand(std::string what_it_is, std::string whose = "")
      : what(std::move(what_it_is)), gradients(std::move(whose)), label(label_of(what)) {}

  std::string what;       // for messages: "apply_gradients (2 parameters ...)"
  std::string gradients;  // which gradients, the same in every step; "": other values
  std::uint32_t label;    // of `what`, for CollectiveLabel
};

/// A flat tensor divided among ranks, or among the replicas of all ranks: part k is the values from
/// the end of part k-1 to ends[k] - 1.
struct Parts {
  std::vector<std::int64_t> ends;
  int own = 0;  // whose part this is here

  [[nodiscard]] std::int64_t begin(int part) const {
    return part == 0 ? 0 : ends[static_cast<std::size_t>(part) - 1];
  }
  /// A view of a part of `flat`.
  [[nodiscard]] at::Tensor of(const at::Tensor& flat, int part) const {
    return flat.narrow(0, begin(part), ends[static_cast<std::size_t>(part)] - begin(part));
  }
};

class Engine {
 public:
  virtual ~Engine() = default;
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Replaces `flat` [n], contiguous, float32 or float64, by its sum over all workers; every worker
  /// ends with the same bits. Only gradients may lose bits on the way (--compress).
  /// Shapes: the same n on every worker.  Collective: yes.  Blocks: at most collective_timeout.
  /// Throws: PeerLost, PeerFailed, TimeoutError, DesyncError.
  virtual void all_reduce(const at::Tensor& flat, const Summand& summand) = 0;

  /// The first half of all_reduce: replaces this worker's part of `flat` [n], contiguous, float32
  /// or float64, by its sum over all workers, with the bits of all_reduce; the others are used up.
  /// Default: all_reduce.
  /// Shapes: the same n and ends on every worker.  Collective: yes.  Blocks and throws: as
  /// all_reduce.
  virtual void reduce_scatter(const at::Tensor& flat, const Parts& /*parts*/,
                              const Summand& summand) {
    all_reduce(flat, summand);
  }
  /// Whether reduce_scatter is cheaper than all_reduce.
  [[nodiscard]] virtual bool can_scatter() const { return false; }

  /// Replaces every part of `flat` [n], contiguous, float32 or float64, but this worker's own by
  /// that worker's values of it. Default: by all_reduce, of this worker's part and of -0.0
  /// elsewhere, which added to any value leaves its bits. Shapes: the same n and ends on every
  /// worker.  Collective: yes.  Blocks and throws: as all_reduce.
  virtual void all_gather(const at::Tensor& flat, const Parts& parts, const Summand& summand);

  /// Whether values keep their type and range on the way: a sum of numbers that are small enough is
  /// a number.
  [[nodiscard]] virtual bool is_exact() const { return true; }
  /// Whether all_reduce works as well on another thread while this one computes.
  [[nodiscard]] virtual bool can_overlap() const { return false; }

  /// Memory for gradients that are summed in every step, [count], zeroed; where the engine can,
  /// such that all_reduce of it, or of a slice, copies nothing. Default: memory of the device.
  /// Shapes: the same on every worker.  Collective: yes.
  [[nodiscard]] virtual at::Tensor make_buffer(std::int64_t count,
                                               const at::TensorOptions& options);

  /// What the next sum depends on beside its values, by name; empty for most.
  [[nodiscard]] virtual std::vector<NamedTensor> own_state() const { return {}; }
  /// Throws: CheckpointError when a tensor is none of own_state()'s kind.
  virtual void restore_own_state(const std::vector<NamedTensor>& /*tensors*/) {}

  /// Collective goodbye, before the group's; nothing but destruction may follow.
  virtual void close() {}
};

/// Puts something between a strategy and its engine: a link that is slower, or fails.
using EngineWrapper = std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)>;

/// Empty if this build has the engine, else what it lacks: "LibTorch was built without Gloo".
[[nodiscard]] std::string engine_lacks(Communication engine);

/// What "auto" stands for on these devices, and why.
struct EngineChoice {
  Communication engine;  // never automatic
  std::string reason;    // "the replicas are on the CPU"
};

/// Before anything starts. Throws: ConfigError for an engine that this build lacks (names those it
/// has), and compression with another engine than native.
[[nodiscard]] EngineChoice choose_engine(const StrategyOptions& options);

/// Connects this worker's engine; the chief logs which one and why. `group` has joined and outlives
/// the engine. Collective: yes.  Blocks: at most start_timeout.
/// Throws: ConfigError when the engine cannot serve this group; as WorkerGroup's collectives.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const StrategyOptions& options,
                                                  WorkerGroup& group);

/// One maker per engine, each in a file of its own, which is compiled where the build has the
/// engine. `wire` unset: values travel as they are.
[[nodiscard]] std::unique_ptr<Engine> make_native_engine(WorkerGroup& group,
                                                         std::optional<WireType> wire);
[[nodiscard]] std::unique_ptr<Engine> make_gloo_engine(WorkerGroup& group);
[[nodiscard]] std::unique_ptr<Engine> make_nccl_engine(WorkerGroup& group);
[[nodiscard]] std::unique_ptr<Engine> make_mpi_engine(WorkerGroup& group);

}  // namespace troupe::detail
