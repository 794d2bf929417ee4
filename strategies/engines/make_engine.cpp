#include "strategies/engines/make_engine.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "strategies/engines/engines.h"

namespace troupe::detail {
namespace {

struct Known {
  const char* name;
  std::string lacks;  // empty: this build has it
};

std::vector<Known> known_engines() {
  return {{"native", ""}, {"gloo", gloo_lacks()}, {"nccl", nccl_lacks()}, {"mpi", mpi_lacks()}};
}

/// "auto, native or gloo": what this build has.
std::string usable() {
  std::vector<std::string> names = {"auto"};
  for (const Known& engine : known_engines()) {
    if (engine.lacks.empty()) names.emplace_back(engine.name);
  }
  std::string list = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) {
    list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return list;
}

std::string lack_of(const std::string& name) {
  for (const Known& engine : known_engines()) {
    if (name == engine.name) return engine.lacks;
  }
  throw ConfigError("--communication " + name + " is no engine.", "use " + usable() + ".");
}

std::optional<WireType> wire_of(const std::string& compress) {
  if (compress == "none") return std::nullopt;
  if (compress == "float16") return WireType::float16;
  if (compress == "bfloat16") return WireType::bfloat16;
  throw ConfigError("--compress " + compress + " is no type that gradients can travel in.",
                    "use none, float16 or bfloat16.");
}

bool on_gpu(const StrategyOptions& options) {
  const std::string& first = options.devices.empty() ? options.device : options.devices.front();
  return first.rfind("cuda", 0) == 0;
}

EngineChoice choose_automatically(const StrategyOptions& options) {
  if (!on_gpu(options)) return {"native", "the replicas are on the CPU"};
  if (wire_of(options.compress)) return {"native", "--compress is asked for"};
  if (const std::string lacks = nccl_lacks(); !lacks.empty()) {
    return {"native", "by way of host memory: there is no nccl, " + lacks};
  }
  return {"nccl", "the replicas are on GPUs"};
}

}  // namespace

EngineChoice choose_engine(const StrategyOptions& options) {
  const bool compresses = wire_of(options.compress).has_value();
  if (options.communication == "auto") return choose_automatically(options);
  // "ring" is what the native engine was called before it had other ways of adding.
  const std::string name = options.communication == "ring" ? "native" : options.communication;
  const EngineChoice choice = {name, "--communication " + name};
  if (const std::string lacks = lack_of(choice.name); !lacks.empty()) {
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
  if (choice.name == "gloo") return make_gloo_engine(group);
  if (choice.name == "nccl") return make_nccl_engine(group);
  if (choice.name == "mpi") return make_mpi_engine(group);
  return make_native_engine(group, wire_of(options.compress));
}

}  // namespace troupe::detail
