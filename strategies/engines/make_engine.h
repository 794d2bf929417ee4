// The engine that the options name. Which ones there are is decided when Troupe is built: "native"
// is always there, the others where LibTorch or the system has them.
#pragma once

#include <memory>
#include <string>

#include "distributed/worker_group.h"
#include "options/strategy_options.h"
#include "strategies/engines/engine.h"

namespace troupe::detail {

/// What "auto" stands for on these devices, and why.
struct EngineChoice {
  std::string name;    // native, gloo, nccl or mpi
  std::string reason;  // "the replicas are on the CPU"
};

/// Before anything starts. Throws: ConfigError for an unknown engine or compression, an engine that
/// this build lacks (names those it has), and compression with another engine than native.
[[nodiscard]] EngineChoice choose_engine(const StrategyOptions& options);

/// Connects this worker's engine; the chief logs which one and why. `group` has joined and outlives
/// the engine. Collective: yes.  Blocks: at most start_timeout.
/// Throws: ConfigError when the engine cannot serve this group; as WorkerGroup's collectives.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const StrategyOptions& options,
                                                  WorkerGroup& group);

}  // namespace troupe::detail
