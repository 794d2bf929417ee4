#include "troupe/strategies/parameter_server/shard_states.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <map>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/hooks/tensors/tensor_file.h"
#include "troupe/strategies/gradients/optimizer_state.h"

namespace troupe::detail {
namespace {

using nlohmann::json;

constexpr char kOptimizers[] = "optimizers";

ConfigError shard_does_not_fit(const std::string& what) {
  return ConfigError("the parameter servers' state does not fit: " + what + ".",
                     "run the same program on every worker and server.");
}

/// The shards that `server` holds, by parameter.
std::map<std::string, std::vector<int>> held_by(const ServedParameters& served, int server) {
  std::map<std::string, std::vector<int>> held;
  for (std::size_t i = 0; i < served.model.shards.size(); ++i) {
    const Shard& shard = served.model.shards[i];
    if (shard.server != server) continue;
    const auto& parameter = served.model.tensors[static_cast<std::size_t>(shard.tensor)];
    held[parameter.name].push_back(static_cast<int>(i));
  }
  return held;
}

/// What all servers hold, by name.
struct Pieces {
  std::map<std::string, at::Tensor> tensors;
  std::vector<json> counters;  // by optimiser, of all shards

  const at::Tensor& at(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw shard_does_not_fit("there is no " + name);
    return found->second;
  }
};

Pieces read_pieces(const ServedParameters& served,
                   const std::vector<std::vector<std::byte>>& states) {
  Pieces pieces;
  pieces.counters.assign(served.optimizers.size(), json::object());
  for (const auto& bytes : states) {
    ShardState state = read_state(bytes);
    for (auto& [name, tensor] : state.tensors) pieces.tensors[name] = tensor;
    if (state.optimizers.size() != served.optimizers.size()) {
      throw shard_does_not_fit("a server has another number of optimisers");
    }
    for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
      pieces.counters[o].update(state.optimizers[o].at("counters"));
    }
  }
  return pieces;
}

/// Rows that lie in shards, as one tensor of the parameter's shape; what is not divided is as it is
/// where it lies.
at::Tensor join(const ServedParameters& served, int number, const Pieces& pieces,
                const std::function<std::string(int)>& name) {
  const auto own = static_cast<std::size_t>(number);
  const std::vector<int>& shards = served.shards_of[own];
  if (!served.model.tensors[own].is_divisible) return pieces.at(name(shards.front()));
  const at::Tensor& whole = served.tensors[own].second;
  std::vector<at::Tensor> rows;
  for (const int shard : shards) {
    rows.push_back(pieces.at(name(shard)));
    if (rows.back().sizes() != rows_of(whole, served.model.shard(shard)).sizes()) {
      throw shard_does_not_fit(text(name(shard), " is ", rows.back().sizes()));
    }
  }
  return torch::cat(rows, 0).reshape(whole.sizes());
}

/// Gives one optimiser the state of its parameters' shards.
void merge_optimizer(Replica& replica, const ServedParameters& served, std::size_t o,
                     const Pieces& pieces) {
  auto& optimizer = replica.optimizer(served.optimizers[o]);
  std::vector<NamedTensor> former;
  json description = describe_optimizer(optimizer, replica.parameters(), former);
  description["counters"] = json::object();
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < served.model.tensors.size(); ++i) {
    if (served.model.tensors[i].optimizer != static_cast<int>(o)) continue;
    const auto number = static_cast<int>(i);
    const std::string first = served.name_of(served.shards_of[i].front());
    const auto counters = pieces.counters[o].find(first);
    if (counters == pieces.counters[o].end()) continue;  // it was never stepped
    const std::string& name = served.model.tensors[i].name;
    description["counters"][name] = *counters;
    const std::string prefix = optimizer_prefix(o) + first + "/";
    for (auto field = pieces.tensors.lower_bound(prefix);
         field != pieces.tensors.end() && field->first.rfind(prefix, 0) == 0; ++field) {
      const std::string last = field->first.substr(prefix.size());
      tensors.emplace_back(text(name, "/", last), join(served, number, pieces, [&](int shard) {
                             return text(optimizer_prefix(o), served.name_of(shard), "/", last);
                           }));
    }
  }
  restore_optimizer(optimizer, replica.parameters(), description, tensors);
}

}  // namespace

std::vector<std::byte> write_state(const ShardState& state) {
  return write_tensors(state.tensors, {{kOptimizers, state.optimizers.dump()}});
}

ShardState read_state(Span<const std::byte> bytes) {
  ShardState state;
  TensorTexts texts;
  try {
    state.tensors =
        read_tensors({bytes.begin(), bytes.end()}, "a parameter server's state", &texts);
    state.optimizers = json::parse(texts[kOptimizers]);
  } catch (const CheckpointError& error) {  // it is no file of the user's
    throw shard_does_not_fit(error.cause());
  } catch (const json::exception& error) {
    throw shard_does_not_fit(error.what());
  }
  return state;
}

std::string optimizer_prefix(std::size_t optimizer) { return text("optimizer-", optimizer, "/"); }

std::string value_name(const ServedParameters& served, int shard) {
  return "value/" + served.name_of(shard);
}

json shards_of_optimizer(const json& description, const std::vector<NamedTensor>& tensors,
                         const ServedParameters& served, int server,
                         std::vector<NamedTensor>& own) {
  auto held = held_by(served, server);
  json part = description;
  for (json& group : part["groups"]) {
    json names = json::array();
    for (const json& parameter : group["parameters"]) {
      for (const int shard : held[parameter.get<std::string>()]) {
        names.push_back(served.name_of(shard));
      }
    }
    group["parameters"] = names;
  }
  part["counters"] = json::object();
  for (const auto& [parameter, counters] : description["counters"].items()) {
    for (const int shard : held[parameter]) part["counters"][served.name_of(shard)] = counters;
  }
  for (const auto& [name, tensor] : tensors) {
    const auto slash = name.rfind('/');
    const at::Tensor dense = tensor.is_sparse() ? tensor.to_dense() : tensor;
    for (const int number : held[name.substr(0, slash)]) {
      const Shard& shard = served.model.shard(number);
      const bool is_divisible = served.model.tensor_of(shard).is_divisible;
      own.emplace_back(served.name_of(number) + name.substr(slash),
                       is_divisible ? rows_of(dense, shard) : dense);
    }
  }
  return part;
}

std::vector<std::vector<std::byte>> split_state(Replica& replica, const ServedParameters& served,
                                                int servers) {
  std::vector<ShardState> parts(static_cast<std::size_t>(servers));
  for (std::size_t i = 0; i < served.model.shards.size(); ++i) {
    const Shard& shard = served.model.shards[i];
    const at::Tensor& whole = served.tensors[static_cast<std::size_t>(shard.tensor)].second;
    parts[static_cast<std::size_t>(shard.server)].tensors.emplace_back(
        value_name(served, static_cast<int>(i)), rows_of(whole, shard));
  }
  for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
    std::vector<NamedTensor> tensors;
    const auto description =
        describe_optimizer(replica.optimizer(served.optimizers[o]), replica.parameters(), tensors);
    for (std::size_t server = 0; server < parts.size(); ++server) {
      std::vector<NamedTensor> own;
      parts[server].optimizers.push_back(
          shards_of_optimizer(description, tensors, served, static_cast<int>(server), own));
      for (auto& [name, tensor] : own) {
        parts[server].tensors.emplace_back(optimizer_prefix(o) + name, tensor);
      }
    }
  }
  std::vector<std::vector<std::byte>> states;
  for (const ShardState& part : parts) states.push_back(write_state(part));
  return states;
}

void merge_state(Replica& replica, const ServedParameters& served,
                 const std::vector<std::vector<std::byte>>& states) {
  const torch::NoGradGuard no_grad;
  try {
    const Pieces pieces = read_pieces(served, states);
    for (std::size_t i = 0; i < served.tensors.size(); ++i) {
      // What no optimiser owns servers hand out once, and a worker may have changed it since.
      if (served.model.tensors[i].optimizer < 0) continue;
      at::Tensor into = served.tensors[i].second;
      const at::Tensor values = join(served, static_cast<int>(i), pieces,
                                     [&](int shard) { return value_name(served, shard); });
      if (values.numel() != into.numel()) {
        throw shard_does_not_fit(text(served.tensors[i].first, " is ", values.sizes()));
      }
      into.copy_(values.view(into.sizes()));
    }
    for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
      merge_optimizer(replica, served, o, pieces);
    }
  } catch (const json::exception& error) {
    throw shard_does_not_fit(error.what());
  }
}

}  // namespace troupe::detail
