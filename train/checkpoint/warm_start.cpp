#include "train/checkpoint/warm_start.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <utility>

#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/text.h"
#include "strategies/replicas/local_replicas.h"
#include "tensors/tensor_file.h"
#include "train/checkpoint/model_weights.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxWeightsBytes = std::uint64_t{1} << 40;

/// The tensors of a checkpoint, a model directory or an export.
std::vector<NamedTensor> read_from(const std::string& from) {
  PosixFileSystem files(from);
  if (files.status("manifest.json")) return read_weights(from);
  if (const auto newest = latest_checkpoint(from)) return read_weights(*newest);
  constexpr const char* kExported = "model.safetensors";
  if (files.status(kExported)) {
    return read_tensors(files.read_file(kExported, kMaxWeightsBytes), from + "/" + kExported);
  }
  throw CheckpointError("there is no model to start from in " + from + ".",
                        "name a checkpoint <dir>/model.ckpt-<step>, a model directory or an "
                        "export.");
}

/// Throws: ConfigError if it is none.
std::regex pattern_of(const std::string& expression) {
  try {
    return std::regex(expression);
  } catch (const std::regex_error& error) {
    throw ConfigError("\"" + expression + "\" is no regular expression: " + error.what() + ".",
                      "write one in ECMAScript's syntax.");
  }
}

/// All trained parameters, or what the expressions match.
std::vector<NamedTensor> chosen(const WarmStart& warm_start,
                                const std::vector<NamedTensor>& parameters,
                                const std::vector<NamedTensor>& buffers) {
  std::vector<NamedTensor> tensors;
  if (warm_start.variables.empty()) {
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(tensors),
                 [](const NamedTensor& tensor) { return tensor.second.requires_grad(); });
    return tensors;
  }
  std::vector<NamedTensor> all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  std::vector<char> is_chosen(all.size(), 0);
  for (const std::string& expression : warm_start.variables) {
    const std::regex pattern = pattern_of(expression);
    bool matches = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!std::regex_match(all[i].first, pattern)) continue;
      is_chosen[i] = 1;
      matches = true;
    }
    if (matches) continue;
    throw ConfigError(
        text("\"", expression, "\" matches no parameter or buffer of the model."),
        "an expression has to match a whole name, such as \"encoder\\..*\"; --summary "
        "prints the names of the parameters.");
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_chosen[i] != 0) tensors.push_back(all[i]);
  }
  return tensors;
}

CheckpointError no_warm_start(const std::string& what) {
  return CheckpointError(
      "the warm start does not fit the model: " + what + ".",
      "start from what has the same names and shapes, or choose the tensors that "
      "fit (--init-only, WarmStart::variables and previous_names).");
}

std::string described(const at::Tensor& tensor) {
  return text(tensor.scalar_type(), " ", tensor.sizes());
}

}  // namespace

void validate(const WarmStart& warm_start) {
  const bool chooses = !warm_start.variables.empty() || !warm_start.previous_names.empty();
  if (warm_start.from.empty() && chooses) {
    throw ConfigError("a warm start names tensors and nothing to take them from.",
                      "give --init-from with --init-only, or set WarmStart::from.");
  }
  for (const std::string& expression : warm_start.variables) (void)pattern_of(expression);
}

void copy_from(const WarmStart& warm_start, const std::vector<NamedTensor>& parameters,
               const std::vector<NamedTensor>& buffers) {
  const torch::NoGradGuard no_grad;
  validate(warm_start);
  const std::vector<NamedTensor> tensors = chosen(warm_start, parameters, buffers);
  const std::vector<NamedTensor> read = read_from(warm_start.from);
  const std::map<std::string, at::Tensor> saved(read.begin(), read.end());
  // Nothing is copied before all of it is known to fit.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, tensor] : tensors) {
    const auto previous = warm_start.previous_names.find(name);
    const std::string& source =
        previous == warm_start.previous_names.end() ? name : previous->second;
    const auto found = saved.find(source);
    if (found == saved.end()) {
      throw no_warm_start(text(warm_start.from, " has no \"", source, "\""));
    }
    const at::Tensor& value = found->second;
    if (value.sizes() != tensor.sizes() || value.scalar_type() != tensor.scalar_type()) {
      throw no_warm_start(text("\"", source, "\" is ", described(value), " in ", warm_start.from,
                               ", the model's \"", name, "\" is ", described(tensor)));
    }
    copies.emplace_back(tensor, value);
  }
  for (auto& [tensor, value] : copies) tensor.copy_(value);
  log_info("warm start: ", copies.size(), " of ", parameters.size() + buffers.size(),
           " tensors from ", warm_start.from);
}

void copy_from(const WarmStart& warm_start, Strategy& strategy, TrainState& state) {
  validate(warm_start);
  if (warm_start.from.empty() || state.step > 0) return;
  const Replica& first = *state.replicas.front();
  if (strategy.is_chief()) copy_from(warm_start, first.parameters(), first.buffers());
  detail::change_on_host(detail::state_of(first),
                         [&](Span<std::byte> bytes) { strategy.broadcast(bytes); });
  detail::copy_first_to_all(state);
  if (!state.averages) return;
  const torch::NoGradGuard no_grad;
  WeightAverages& averages = *state.averages;
  for (std::size_t i = 0; i < averages.values.size(); ++i) {
    averages.values[i].second.copy_(averages.weights[i]);
  }
}

}  // namespace troupe
