#include "servers/tensors/shard_states.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "servers/tensors/state_bytes.h"
#include "strategies/gradients/optimizer_state.h"

namespace troupe::detail {
namespace {

using nlohmann::ordered_json;

ConfigError does_not_fit(const std::string& what) {
  return ConfigError("the parameter servers' state does not fit: " + what + ".",
                     "run the same program on every worker and server.");
}

const Shard& shard_at(const ServedParameters& served, int shard) {
  return served.model.shards[static_cast<std::size_t>(shard)];
}

/// A parameter's number by its name; -1: it is not served.
int number_of(const ServedParameters& served, const std::string& name) {
  for (std::size_t i = 0; i < served.model.tensors.size(); ++i) {
    if (served.model.tensors[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

/// The shards of a parameter that `server` holds; of a parameter that is not served, none.
std::vector<int> held_by(const ServedParameters& served, const std::string& parameter, int server) {
  std::vector<int> held;
  const int number = number_of(served, parameter);
  if (number < 0) return held;
  for (const int shard : served.shards_of[static_cast<std::size_t>(number)]) {
    if (shard_at(served, shard).server == server) held.push_back(shard);
  }
  return held;
}

/// What all servers hold, by name.
struct Pieces {
  std::map<std::string, at::Tensor> tensors;
  std::vector<ordered_json> counters;  // by optimiser, of all shards

  const at::Tensor& at(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw does_not_fit("there is no " + name);
    return found->second;
  }
};

Pieces read_pieces(const ServedParameters& served,
                   const std::vector<std::vector<std::byte>>& states) {
  Pieces pieces;
  pieces.counters.assign(served.optimizers.size(), ordered_json::object());
  for (const auto& bytes : states) {
    ShardState state = read_state(bytes);
    for (auto& [name, tensor] : state.tensors) pieces.tensors[name] = tensor;
    if (state.optimizers.size() != served.optimizers.size()) {
      throw does_not_fit("a server has another number of optimisers");
    }
    for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
      pieces.counters[o].update(state.optimizers[o].at("counters"));
    }
  }
  return pieces;
}

/// Rows that lie in shards, as one tensor of the parameter's shape.
at::Tensor join(const ServedParameters& served, int number, const Pieces& pieces,
                const std::function<std::string(int)>& name) {
  const at::Tensor& whole = served.tensors[static_cast<std::size_t>(number)].second;
  std::vector<at::Tensor> rows;
  for (const int shard : served.shards_of[static_cast<std::size_t>(number)]) {
    rows.push_back(pieces.at(name(shard)));
    if (rows.back().sizes() != rows_of(whole, shard_at(served, shard)).sizes()) {
      throw does_not_fit(text(name(shard), " is ", rows.back().sizes()));
    }
  }
  return torch::cat(rows, 0).reshape(whole.sizes());
}

/// Gives one optimiser the state of its parameters' shards.
void merge_optimizer(Replica& replica, const ServedParameters& served, std::size_t o,
                     const Pieces& pieces) {
  auto& optimizer = replica.optimizer(served.optimizers[o]);
  std::vector<NamedTensor> former;
  ordered_json description = describe_optimizer(optimizer, replica.parameters(), former);
  description["counters"] = ordered_json::object();
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

std::string optimizer_prefix(std::size_t optimizer) { return text("optimizer-", optimizer, "/"); }

std::string value_name(const ServedParameters& served, int shard) {
  return "value/" + served.name_of(shard);
}

ordered_json shards_of_optimizer(const ordered_json& description,
                                 const std::vector<NamedTensor>& tensors,
                                 const ServedParameters& served, int server,
                                 std::vector<NamedTensor>& own) {
  ordered_json part = description;
  part["counters"] = ordered_json::object();
  for (std::size_t g = 0; g < part.at("groups").size(); ++g) {
    ordered_json names = ordered_json::array();
    for (const auto& parameter : description["groups"][g]["parameters"]) {
      const auto name = parameter.get<std::string>();
      for (const int shard : held_by(served, name, server)) {
        names.push_back(served.name_of(shard));
        const auto counters = description["counters"].find(name);
        if (counters != description["counters"].end()) {
          part["counters"][served.name_of(shard)] = *counters;
        }
      }
    }
    part["groups"][g]["parameters"] = names;
  }
  for (const auto& [name, tensor] : tensors) {
    const auto slash = name.rfind('/');
    const at::Tensor dense = tensor.is_sparse() ? tensor.to_dense() : tensor;
    for (const int shard : held_by(served, name.substr(0, slash), server)) {
      own.emplace_back(served.name_of(shard) + name.substr(slash),
                       rows_of(dense, shard_at(served, shard)));
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
      at::Tensor into = served.tensors[i].second;
      into.copy_(join(served, static_cast<int>(i), pieces,
                      [&](int shard) { return value_name(served, shard); }));
    }
    for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
      merge_optimizer(replica, served, o, pieces);
    }
  } catch (const ordered_json::exception& error) {
    throw does_not_fit(error.what());
  }
}

}  // namespace troupe::detail
