#include "troupe/train/checkpoint/warm_start.h"

#include <sys/stat.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/file_system.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/hooks/tensors/tensor_file.h"
#include "troupe/strategies/replicas/local_replicas.h"
#include "troupe/train/checkpoint/model_weights.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxWeightsBytes = std::uint64_t{1} << 40;
constexpr std::size_t kShownNames = 8;

/// Whether the file begins as archives of torch.save do, or as a pickle.
bool is_pickle(Span<const std::byte> start) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(start[i]); };
  return start.size() >= 2 && ((at(0) == 'P' && at(1) == 'K') || at(0) == 0x80);
}

std::vector<NamedTensor> read_file(const std::string& from) {
  const auto slash = from.rfind('/');
  PosixFileSystem files(
      slash == std::string::npos ? "." : from.substr(0, std::max<std::size_t>(slash, 1)));
  auto bytes =
      files.read_file(from.substr(slash == std::string::npos ? 0 : slash + 1), kMaxWeightsBytes);
  if (!is_pickle(bytes)) return read_tensors(std::move(bytes), from);
  throw CheckpointError(
      text("'", from,
           "' is a file of Python's torch.save, which runs code when it is opened, and "
           "which LibTorch cannot read as names and tensors."),
      text(
          "convert it: python3 -c \"import torch, safetensors.torch as s; s.save_file(torch.load('",
          from, "', map_location='cpu'), 'weights.safetensors')\"."));
}

/// The tensors of a checkpoint, a model directory, an export or a file.
std::vector<NamedTensor> read_from(const std::string& from) {
  struct stat facts = {};
  const bool exists = ::stat(from.c_str(), &facts) == 0;
  if (exists && !S_ISDIR(facts.st_mode)) return read_file(from);
  if (const std::string best = named_checkpoint(from); !exists && best != from) {
    return read_weights(best);
  }
  PosixFileSystem files(from);
  if (files.status("manifest.json")) return read_weights(from);
  if (const auto newest = latest_checkpoint(from)) return read_weights(*newest);
  constexpr const char* kExported = "model.safetensors";
  if (files.status(kExported)) {
    return read_tensors(files.read_file(kExported, kMaxWeightsBytes), from + "/" + kExported);
  }
  throw CheckpointError("there is no model to start from in " + from + ".",
                        "name a checkpoint <dir>/model.ckpt-<step>, a model directory, an export, "
                        "or a safetensors file.");
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

bool matches_any(const std::vector<std::string>& expressions, const std::string& name) {
  return std::any_of(expressions.begin(), expressions.end(), [&](const std::string& expression) {
    return std::regex_match(name, pattern_of(expression));
  });
}

/// All parameters and buffers, or what the expressions match.
std::vector<NamedTensor> chosen(const WarmStart& warm_start, const std::vector<NamedTensor>& all) {
  if (warm_start.variables.empty()) return all;
  for (const std::string& expression : warm_start.variables) {
    const bool matches = std::any_of(all.begin(), all.end(), [&](const NamedTensor& tensor) {
      return matches_any({expression}, tensor.first);
    });
    if (matches) continue;
    throw ConfigError(
        text("\"", expression, "\" matches no parameter or buffer of the model."),
        "an expression has to match a whole name, such as \"encoder\\..*\"; --summary "
        "prints the names of the parameters.");
  }
  std::vector<NamedTensor> tensors;
  std::copy_if(all.begin(), all.end(), std::back_inserter(tensors), [&](const NamedTensor& tensor) {
    return matches_any(warm_start.variables, tensor.first);
  });
  return tensors;
}

/// The model's name of what has this name in the file.
std::string mapped(const WarmStart& warm_start, const std::string& name) {
  for (const auto& [old, now] : warm_start.prefixes) {
    if (name.compare(0, old.size(), old) == 0) return now + name.substr(old.size());
  }
  return name;
}

/// "a, b, c and 4 more"; "none".
std::string list_of(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  const std::vector<std::string> first(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShownNames)));
  return text(join(first),
              names.size() > kShownNames ? text(" and ", names.size() - kShownNames, " more") : "");
}

std::string described(const at::Tensor& tensor) {
  return text(tensor.scalar_type(), " ", tensor.sizes());
}

/// The --init-map with which the file would have `name`; "": none is known.
std::string map_for(const std::string& name, const std::map<std::string, at::Tensor>& saved) {
  const auto ends_with = [](const std::string& whole, const std::string& end) {
    return whole.size() > end.size() &&
           whole.compare(whole.size() - end.size(), end.size(), end) == 0;
  };
  for (const auto& [other, tensor] : saved) {
    if (ends_with(other, name)) return other.substr(0, other.size() - name.size()) + "=";
    if (ends_with(name, other)) return "=" + name.substr(0, name.size() - other.size());
  }
  return "";
}

CheckpointError lacks(const WarmStart& warm_start, const std::vector<std::string>& missing,
                      const std::map<std::string, at::Tensor>& saved) {
  const std::string map = map_for(missing.front(), saved);
  return CheckpointError(
      text("the warm start does not fit the model: ", warm_start.from, " has no ", list_of(missing),
           "."),
      text(map.empty() ? "" : text("the names there begin otherwise: --init-map '", map, "'. "),
           "What may be missing is named by --init-missing, what is wanted by --init-only."));
}

/// What is copied, and what is told of it.
struct Loading {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // into, from
  std::vector<std::string> missing;                       // and allowed to be
  std::vector<std::string> left_over;                     // in the file
  std::size_t converted = 0;                              // of another floating point type
};

/// Nothing is copied before all of it is known to fit.
Loading match(const WarmStart& warm_start, const std::vector<NamedTensor>& wanted,
              std::map<std::string, at::Tensor> saved) {
  Loading made;
  std::vector<std::string> lacking;
  std::set<std::string> used;
  for (const auto& [name, tensor] : wanted) {
    const auto previous = warm_start.previous_names.find(name);
    const std::string& source =
        previous == warm_start.previous_names.end() ? name : previous->second;
    const auto found = saved.find(source);
    const bool may_lack = matches_any(warm_start.missing, name);
    if (found == saved.end()) {
      (may_lack ? made.missing : lacking).push_back(name);
      continue;
    }
    const at::Tensor& value = found->second;
    const bool is_same_type = value.scalar_type() == tensor.scalar_type();
    const bool is_like = value.is_floating_point() && tensor.is_floating_point();
    if (value.sizes() != tensor.sizes() || !(is_same_type || is_like)) {
      if (!may_lack) {
        throw CheckpointError(
            text("the warm start does not fit the model: \"", source, "\" is ", described(value),
                 " in ", warm_start.from, ", the model's \"", name, "\" is ", described(tensor),
                 "."),
            "what may differ is named by --init-missing, what is wanted by --init-only.");
      }
      made.missing.push_back(text(name, " (", described(value), " there)"));
    } else {
      made.converted += is_same_type ? 0 : 1;
      made.copies.emplace_back(tensor, value);
    }
    used.insert(source);
  }
  if (!lacking.empty()) throw lacks(warm_start, lacking, saved);
  for (const auto& [name, tensor] : saved) {
    if (used.count(name) == 0) made.left_over.push_back(name);
  }
  return made;
}

}  // namespace

void validate(const WarmStart& warm_start) {
  const bool chooses = !warm_start.variables.empty() || !warm_start.previous_names.empty() ||
                       !warm_start.prefixes.empty() || !warm_start.missing.empty();
  if (warm_start.from.empty() && chooses) {
    throw ConfigError("a warm start names tensors and nothing to take them from.",
                      "give --init-from with --init-only, --init-map and --init-missing, or set "
                      "WarmStart::from.");
  }
  for (const auto* expressions : {&warm_start.variables, &warm_start.missing}) {
    for (const std::string& expression : *expressions) (void)pattern_of(expression);
  }
}

void copy_from(const WarmStart& warm_start, const Replica& replica) {
  const torch::NoGradGuard no_grad;
  validate(warm_start);
  const std::vector<NamedTensor> all = detail::state_of(replica);
  const std::vector<NamedTensor> wanted = chosen(warm_start, all);
  std::map<std::string, at::Tensor> saved;
  for (auto& [name, tensor] : read_from(warm_start.from)) {
    if (saved.emplace(mapped(warm_start, name), tensor).second) continue;
    throw ConfigError(text("--init-map gives two tensors of ", warm_start.from, " the name \"",
                           mapped(warm_start, name), "\"."),
                      "map each to a name of its own.");
  }
  Loading loading = match(warm_start, wanted, std::move(saved));
  for (auto& [tensor, value] : loading.copies) tensor.copy_(value);
  log_info(
      "warm start: ", loading.copies.size(), " of ", all.size(), " tensors from ", warm_start.from,
      loading.converted > 0 ? text(", ", loading.converted, " of them converted from another type")
                            : "");
  log_info("warm start: missing there, and as create_model made them: ", list_of(loading.missing));
  log_info("warm start: left over there: ", list_of(loading.left_over));
}

void copy_from(const WarmStart& warm_start, Strategy& strategy, TrainState& state) {
  validate(warm_start);
  if (warm_start.from.empty() || state.step > 0) return;
  const Replica& first = *state.replicas.front();
  if (strategy.is_chief()) copy_from(warm_start, first);
  detail::change_on_host(detail::state_of(first),
                         [&](Span<std::byte> bytes) { strategy.broadcast(bytes); });
  detail::copy_first_to_all(state);
  if (state.averages) detail::copy_values(state.averages->weights, state.averages->values);
}

}  // namespace troupe
