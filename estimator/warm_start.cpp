#include "estimator/warm_start.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <regex>
#include <utility>

#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/text.h"
#include "estimator/extenders.h"
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

class WarmStarted final : public detail::WrappedHooks {
 public:
  WarmStarted(std::shared_ptr<const Hooks> inner, WarmStart warm_start)
      : WrappedHooks(std::move(inner)), warm_start_(std::move(warm_start)) {
    if (warm_start_.from.empty()) {
      throw ConfigError("the warm start names nothing to start from.", "set WarmStart::from.");
    }
    if (!warm_start_.variables) return;
    for (const std::string& expression : *warm_start_.variables) {
      try {
        patterns_.emplace_back(expression);
      } catch (const std::regex_error& error) {
        throw ConfigError("\"" + expression + "\" is no regular expression: " + error.what() + ".",
                          "write one in ECMAScript's syntax.");
      }
    }
  }

  [[nodiscard]] Trainable create_model() const override {
    Trainable made = inner().create_model();
    std::vector<NamedTensor> chosen;
    for (const auto& [model_name, model] : made.models) {
      const std::string prefix = model_name == "model" ? "" : model_name + ".";
      for (const auto& item : model->named_parameters()) {
        const bool by_default = !warm_start_.variables && item.value().requires_grad();
        if (by_default || matches(prefix + item.key())) {
          chosen.emplace_back(prefix + item.key(), item.value());
        }
      }
      for (const auto& item : model->named_buffers()) {
        if (matches(prefix + item.key())) chosen.emplace_back(prefix + item.key(), item.value());
      }
    }
    copy(chosen);
    return made;
  }

 private:
  [[nodiscard]] bool matches(const std::string& name) const {
    return std::any_of(patterns_.begin(), patterns_.end(),
                       [&](const std::regex& p) { return std::regex_match(name, p); });
  }

  void copy(const std::vector<NamedTensor>& chosen) const {
    const auto saved = read_from(warm_start_.from);
    for (const auto& [name, tensor] : chosen) {
      const auto previous = warm_start_.previous_names.find(name);
      const std::string& source =
          previous == warm_start_.previous_names.end() ? name : previous->second;
      copy_weights({{source, tensor}}, saved);
    }
    log_info("warm start: ", chosen.size(), " tensors from ", warm_start_.from);
  }

  WarmStart warm_start_;
  std::vector<std::regex> patterns_;
};

}  // namespace

std::shared_ptr<const Hooks> with_warm_start(std::shared_ptr<const Hooks> hooks,
                                             WarmStart warm_start) {
  return std::make_shared<const WarmStarted>(std::move(hooks), std::move(warm_start));
}

}  // namespace troupe
