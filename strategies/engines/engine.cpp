// TROUPE_<engine>_MAKER and TROUPE_<engine>_LACKS are from CMakeLists.txt: the engine's maker, or
// nullptr and what this build lacks for it.
#include "troupe/strategies/engines/engine.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/strategies/device.h"

namespace troupe::detail {
namespace {

/// An engine of another library.
struct Foreign {
  Communication engine;
  const char* lacks;  // empty: this build has it
  std::unique_ptr<Engine> (*make)(WorkerGroup& group);
};
constexpr std::array<Foreign, 3> kForeign = {{
    {Communication::gloo, TROUPE_GLOO_LACKS, TROUPE_GLOO_MAKER},
    {Communication::nccl, TROUPE_NCCL_LACKS, TROUPE_NCCL_MAKER},
    {Communication::mpi, TROUPE_MPI_LACKS, TROUPE_MPI_MAKER},
}};

/// "auto, native or gloo": what this build has.
std::string usable() {
  std::vector<std::string> names = {"auto", "native"};
  for (const Foreign& foreign : kForeign) {
    if (foreign.make != nullptr) names.emplace_back(name_of(foreign.engine));
  }
  return text(join({names.begin(), names.end() - 1}), " or ", names.back());
}

std::optional<WireType> wire_of(Compression compress) {
  if (compress == Compression::none) return std::nullopt;
  return compress == Compression::float16 ? WireType::float16 : WireType::bfloat16;
}

bool on_gpu(const StrategyOptions& options) { return first_device(options).rfind("cuda", 0) == 0; }

EngineChoice choose_automatically(const StrategyOptions& options) {
  if (!on_gpu(options)) return {Communication::native, "the replicas are on the CPU"};
  if (options.compress != Compression::none) return {Communication::native, "--compress is given"};
  if (options.virtual_replicas > 0) {
    return {Communication::native, "by way of host memory: --virtual-replicas is given"};
  }
  if (const std::string lacks = engine_lacks(Communication::nccl); !lacks.empty()) {
    return {Communication::native, "by way of host memory: there is no nccl, " + lacks};
  }
  if (encrypts(options.cluster, options.group)) {
    return {Communication::native, "by way of host memory: nccl does not encrypt (--insecure)"};
  }
  return {Communication::nccl, "the replicas are on GPUs"};
}

/// Ranks whose replicas are on one GPU, which NCCL refuses; "": there are none. Collective.
std::string share_a_gpu(const StrategyOptions& options, WorkerGroup& group) {
  const std::string mine = gpu_identity(first_device(options), std::getenv("CUDA_VISIBLE_DEVICES"));
  const auto all = group.all_gather(as_bytes(Span<const char>(mine.data(), mine.size())),
                                    Deadline::in(options.group.start_timeout));
  for (std::size_t second = 1; second < all.size(); ++second) {
    const auto first = std::find(all.begin(), all.end(), all[second]) - all.begin();
    if (static_cast<std::size_t>(first) < second) return text("ranks ", first, " and ", second);
  }
  return "";
}

/// Of the group's workers together. Collective.
EngineChoice choose_together(const StrategyOptions& options, WorkerGroup& group) {
  const EngineChoice choice = choose_engine(options);
  if (choice.engine != Communication::nccl) return choice;
  const std::string ranks = share_a_gpu(options, group);
  if (ranks.empty()) return choice;
  if (options.communication == Communication::automatic) {
    return {Communication::native, "by way of host memory: " + ranks + " share a GPU"};
  }
  throw ConfigError(choice.reason + " wants a GPU for each worker, and " + ranks + " share one.",
                    "give each worker a GPU, by --devices cuda:N or CUDA_VISIBLE_DEVICES; or use "
                    "--communication native.");
}

}  // namespace

void Engine::all_gather(const at::Tensor& flat, const Parts& parts, const Summand& summand) {
  for (int part = 0; part < static_cast<int>(parts.ends.size()); ++part) {
    if (part != parts.own) parts.of(flat, part).fill_(-0.0);
  }
  all_reduce(flat, summand);
}

at::Tensor Engine::make_buffer(std::int64_t count, const at::TensorOptions& options) {
  return at::zeros({count}, options);
}

std::string engine_lacks(Communication engine) {
  for (const Foreign& foreign : kForeign) {
    if (engine == foreign.engine) return foreign.lacks;
  }
  return "";
}

EngineChoice choose_engine(const StrategyOptions& options) {
  const Communication engine = options.communication;
  if (engine == Communication::automatic) return choose_automatically(options);
  const EngineChoice choice = {engine, text("--communication ", name_of(engine))};
  if (const std::string lacks = engine_lacks(engine); !lacks.empty()) {
    throw ConfigError(choice.reason + " is not in this build: " + lacks + ".",
                      "use " + usable() + "; docs/engines.md says what each needs.");
  }
  if (options.compress != Compression::none && engine != Communication::native) {
    throw ConfigError(text("--compress ", name_of(options.compress), " and ", choice.reason,
                           " do not go together: only the native engine compresses."),
                      "use --communication native, or --compress none.");
  }
  if (engine != Communication::native && encrypts(options.cluster, options.group)) {
    throw ConfigError(text(choice.reason, " does not encrypt, and the cluster of ",
                           options.cluster.origin, " reaches beyond this machine."),
                      "use --communication native; or give every worker --insecure, on a network "
                      "where everyone is trusted.");
  }
  if (engine == Communication::nccl && !on_gpu(options)) {
    throw ConfigError("--communication nccl sums on GPUs, and the replicas are on the CPU.",
                      "use --devices cuda, or --communication auto.");
  }
  return choice;
}

std::unique_ptr<Engine> make_engine(const StrategyOptions& options, WorkerGroup& group) {
  const EngineChoice choice = choose_together(options, group);
  if (group.rank() == 0 && group.world_size() > 1) {
    const bool is_usual = choice.engine == Communication::native && !on_gpu(options) &&
                          options.compress == Compression::none;
    log(is_usual ? LogLevel::debug : LogLevel::info,
        text("gradients are summed over workers by ", name_of(choice.engine), " (", choice.reason,
             ")", options.compress == Compression::none ? "" : ", in ",
             options.compress == Compression::none ? "" : name_of(options.compress)));
  }
  for (const Foreign& foreign : kForeign) {
    if (choice.engine == foreign.engine) return foreign.make(group);
  }
  return make_native_engine(group, wire_of(options.compress));
}

}  // namespace troupe::detail
