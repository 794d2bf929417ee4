// One maker per engine, each in a file of its own. The maker of an engine that is not in this build
// is never called: choose_engine refuses it first.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "distributed/worker_group.h"
#include "strategies/engines/engine.h"

namespace troupe::detail {

/// `wire` unset: values travel as they are.
[[nodiscard]] std::unique_ptr<Engine> make_native_engine(WorkerGroup& group,
                                                         std::optional<WireType> wire);
[[nodiscard]] std::unique_ptr<Engine> make_gloo_engine(WorkerGroup& group);
[[nodiscard]] std::unique_ptr<Engine> make_nccl_engine(WorkerGroup& group);
[[nodiscard]] std::unique_ptr<Engine> make_mpi_engine(WorkerGroup& group);

/// Empty where this build has the engine, else what it lacks: "LibTorch was built without Gloo".
[[nodiscard]] std::string gloo_lacks();
[[nodiscard]] std::string nccl_lacks();
[[nodiscard]] std::string mpi_lacks();

}  // namespace troupe::detail
