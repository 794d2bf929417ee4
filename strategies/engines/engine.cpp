// TROUPE_<engine>_MAKER and TROUPE_<engine>_LACKS are from CMakeLists.txt: the engine's maker, or
// nullptr and what this build lacks for it.
#include "strategies/engines/engine.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "strategies/device.h"

namespace troupe::detail {
namespace {

/// An engine of another library.
struct Foreign {
  const char* name;
  const char* lacks;  // empty: this build has it
  std::unique_ptr<Engine> (*make)(WorkerGroup& group);
};
constexpr std::array<Foreign, 3> kForeign = {{
    {"gloo", TROUPE_GLOO_LACKS, TROUPE_GLOO_MAKER},
    {"nccl", TROUPE_NCCL_LACKS, TROUPE_NCCL_MAKER},
    {"mpi", TROUPE_MPI_LACKS, TROUPE_MPI_MAKER},
}};

/// "auto, native or gloo": what this build has.
std::string usable() {
  std::vector<std::string> names = {"auto", "native"};
  for (const Foreign& engine : kForeign) {
    if (engine.make != nullptr) names.emplace_back(engine.name);
  }
  std::string list = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) {
    list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return list;
}

std::optional<WireType> wire_of(const std::string& compress) {
  if (compress == "none") return std::nullopt;
  if (compress == "float16") return WireType::float16;
  if (compress == "bfloat16") return WireType::bfloat16;
  throw ConfigError("--compress " + compress + " is no type that gradients can travel in.",
                    "use none, float16 or bfloat16.");
}

bool on_gpu(const StrategyOptions& options) { return first_device(options).rfind("cuda", 0) == 0; }

EngineChoice choose_automatically(const StrategyOptions& options) {
  if (!on_gpu(options)) return {"native", "the replicas are on the CPU"};
  if (wire_of(options.compress)) return {"native", "--compress is asked for"};
  if (const std::string lacks = engine_lacks("nccl"); !lacks.empty()) {
    return {"native", "by way of host memory: there is no nccl, " + lacks};
  }
  return {"nccl", "the replicas are on GPUs"};
}

}  // namespace

at::Tensor Engine::make_buffer(std::int64_t count, const at::TensorOptions& options) {
  return at::zeros({count}, options);
}

std::string engine_lacks(const std::string& name) {
  if (name == "native") return "";
  for (const Foreign& engine : kForeign) {
    if (name == engine.name) return engine.lacks;
  }
  throw ConfigError("--communication " + name + " is no engine.", "use " + usable() + ".");
}

EngineChoice choose_engine(const StrategyOptions& options) {
  const bool compresses = wire_of(options.compress).has_value();
  if (options.communication == "auto") return choose_automatically(options);
  // "ring" is what the native engine was called before it had other ways of adding.
  const std::string name = options.communication == "ring" ? "native" : options.communication;
  const EngineChoice choice = {name, "--communication " + name};
  if (const std::string lacks = engine_lacks(choice.name); !lacks.empty()) {
    throw ConfigError("--communication " + choice.name + " is not in this build: " + lacks + ".",
                      "use " + usable() + "; docs/engines.md says what each needs.");
  }
  if (compresses && choice.name != "native") {
    throw ConfigError(text("--compress ", options.compress, " and --communication ", choice.name,
                           " do not go together: only the native engine compresses."),
                      "use --communication native, or --compress none.");
  }
  if (choice.name == "nccl" && !on_gpu(options)) {
    throw ConfigError("--communication nccl sums on GPUs, and the replicas are on the CPU.",
                      "use --device cuda, or --communication auto.");
  }
  return choice;
}

std::unique_ptr<Engine> make_engine(const StrategyOptions& options, WorkerGroup& group) {
  const EngineChoice choice = choose_engine(options);
  if (group.rank() == 0 && group.world_size() > 1) {
    log_info("gradients are summed over workers by ", choice.name, " (", choice.reason, ")",
             options.compress == "none" ? "" : ", in " + options.compress);
  }
  for (const Foreign& engine : kForeign) {
    if (choice.name == engine.name) return engine.make(group);
  }
  return make_native_engine(group, wire_of(options.compress));
}

}  // namespace troupe::detail
