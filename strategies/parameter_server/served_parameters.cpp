#include "troupe/strategies/parameter_server/served_parameters.h"

#include <torch/types.h>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/strategies/replicas/local_replicas.h"

namespace troupe::detail {
namespace {

void check_parameter(const NamedTensor& parameter, bool is_owned) {
  const auto& [name, tensor] = parameter;
  if (is_owned) {
    throw ConfigError("parameter \"" + name + "\" has two optimisers, or one has it twice.",
                      "give every parameter to one optimiser: a server steps it once per push.");
  }
  const auto dtype = tensor.scalar_type();
  if (dtype == torch::kFloat32 || dtype == torch::kFloat64) return;
  throw ConfigError(
      text("parameter \"", name, "\" is ", dtype, "; parameter servers train float32 and float64."),
      "keep the parameters in float32.");
}

void add(ServedParameters& served, const NamedTensor& parameter, int optimizer, bool divisible) {
  const at::Tensor& tensor = parameter.second;
  if (tensor.numel() == 0) return;  // nothing to hold
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  served.model.tensors.push_back({parameter.first, optimizer, rows,
                                  tensor.nbytes() / static_cast<std::size_t>(rows), divisible});
  served.places.emplace(tensor.unsafeGetTensorImpl(), served.tensors.size());
  served.tensors.push_back(parameter);
}

}  // namespace

int ServedParameters::number_of(const at::Tensor& parameter) const {
  const auto place = places.find(parameter.unsafeGetTensorImpl());
  return place == places.end() ? -1 : static_cast<int>(place->second);
}

std::string ServedParameters::name_of(int shard) const {
  return text(model.tensor_of(model.shard(shard)).name, "#", shard);
}

std::int64_t ServedParameters::trained_bytes() const {
  std::int64_t bytes = 0;
  for (const ServedTensor& tensor : model.tensors) {
    if (tensor.optimizer >= 0) bytes += tensor.rows * static_cast<std::int64_t>(tensor.row_bytes);
  }
  return bytes;
}

ServedParameters serve(Replica& replica, const ServerOptions& options, int servers) {
  ServedParameters served;
  served.optimizers = replica.optimizer_names();
  const std::vector<NamedTensor> parameters = replica.parameters();
  const PlaceOfTensor places = place_of_tensor(parameters);
  for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
    auto& optimizer = replica.optimizer(served.optimizers[o]);
    const bool by_element = kind_of(optimizer).stepping == Stepping::by_element;
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& tensor : group.params()) {
        const NamedTensor& named = parameters[places.at(tensor.unsafeGetTensorImpl())];
        check_parameter(named, served.number_of(tensor) >= 0);
        add(served, named, static_cast<int>(o), by_element);
      }
    }
  }
  for (const NamedTensor& parameter : parameters) {
    if (served.number_of(parameter.second) < 0) add(served, parameter, -1, /*divisible=*/true);
  }
  served.model.shards =
      place(served.model.tensors, servers, static_cast<std::size_t>(options.min_shard_bytes));
  served.shards_of.resize(served.tensors.size());
  for (std::size_t i = 0; i < served.model.shards.size(); ++i) {
    const auto tensor = static_cast<std::size_t>(served.model.shards[i].tensor);
    served.shards_of[tensor].push_back(static_cast<int>(i));
  }
  return served;
}

at::Tensor rows_of(const at::Tensor& tensor, const Shard& shard) {
  const at::Tensor plain = tensor.detach();
  return (plain.dim() == 0 ? plain.view({1}) : plain).narrow(0, shard.first_row, shard.rows);
}

JoinTerms terms_of(const StrategyOptions& options, const Replica& replica) {
  JoinTerms terms{signature(state_of(replica)), options.must_match};
  // The servers add their own: pace and placement. Shares of the data are counted by replicas.
  terms.must_match["--strategy"] = "parameter-server";
  terms.must_match["replicas"] = text(options.local_replicas());
  return terms;
}

void check_server_options(const StrategyOptions& options) {
  const Cluster& cluster = options.cluster;
  const ServerOptions& servers = options.servers;
  if (cluster.servers.empty()) {
    throw ConfigError(text("--strategy parameter-server was requested, but the cluster (",
                           cluster.origin, ") has no parameter servers."),
                      "start with troupe run --ps N, or list \"ps\" addresses in TF_CONFIG.");
  }
  if (servers.staleness_bound && *servers.staleness_bound < 0) {
    throw ConfigError(text("--staleness-bound is ", *servers.staleness_bound, "."),
                      "give 0 (synchronous) or more, or leave it out for no bound.");
  }
  if (servers.min_shard_bytes < 1) {
    throw ConfigError(text("min_shard_bytes is ", servers.min_shard_bytes, "."),
                      "give at least 1.");
  }
  const bool synchronous = servers.synchronous();
  if (synchronous && cluster.world_size() > 1 && options.step.clip_norm > 0) {
    throw ConfigError(
        "--clip-norm with --staleness-bound 0 and more than one worker: no process has the sum of "
        "all gradients, whose norm is the limit.",
        "use --strategy multi-worker, leave --staleness-bound 0 out (each worker's gradient is "
        "then "
        "clipped by itself), or train without clipping.");
  }
}

}  // namespace troupe::detail
