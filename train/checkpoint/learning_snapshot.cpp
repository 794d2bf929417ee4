#include "train/checkpoint/learning_snapshot.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "tensors/tensor_file.h"
#include "train/checkpoint/model_weights.h"

namespace troupe::detail {
namespace {

using nlohmann::ordered_json;

/// Calls `visit` with the described and the remembered rate of every group.
template <class V>
void each_rate(const TrainState& state, ordered_json& facts, V&& visit) {
  if (state.base_rates.empty()) return;
  const auto names = state.replicas.front()->optimizer_names();
  for (std::size_t o = 0; o < names.size(); ++o) {
    ordered_json& groups = facts.at("optimizers").at(names[o]).at("groups");
    // Another number of groups is refused where the optimiser is restored.
    const std::size_t count = std::min(groups.size(), state.base_rates[o].size());
    for (std::size_t g = 0; g < count; ++g) {
      visit(groups[g].at("options").at("lr"), state.base_rates[o][g]);
    }
  }
}

ordered_json to_json(const PlateauState& plateau) {
  return {{"best", plateau.best ? ordered_json(*plateau.best) : ordered_json()},
          {"since", plateau.since},
          {"drops", plateau.drops},
          {"observed_epoch", plateau.observed_epoch}};
}

PlateauState plateau_of(const ordered_json& facts) {
  PlateauState plateau;
  const auto saved = facts.find("plateau");
  if (saved == facts.end()) return plateau;
  if (!saved->at("best").is_null()) plateau.best = saved->at("best").get<double>();
  plateau.since = saved->at("since").get<std::int64_t>();
  plateau.drops = saved->at("drops").get<std::int64_t>();
  plateau.observed_epoch = saved->value("observed_epoch", plateau.observed_epoch);
  return plateau;
}

void restore_averages(const Strategy& strategy, WeightAverages& averages, const ordered_json& saved,
                      const RunSnapshot& snapshot) {
  const auto tensors = read_tensors(snapshot.files.at(kAveragesFile), kAveragesFile);
  if (tensors.size() != averages.values.size()) {
    throw CheckpointError(text("the checkpoint has averages of ", tensors.size(),
                               " parameters, and the model trains ", averages.values.size(), "."),
                          "resume with the hooks that made it, or start in another --model-dir.");
  }
  copy_weights(averages.values, tensors);
  averages.updates = saved.at("updates").get<std::int64_t>();
  const auto decay = saved.at("decay").get<double>();
  if (decay == averages.decay || !strategy.is_chief()) return;
  log_info("the averaged weights go on with --ema-decay ", averages.decay, "; so far it was ",
           decay);
}

void begin_averages(const Strategy& strategy, WeightAverages& averages) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages.values.size(); ++i) {
    averages.values[i].second.copy_(averages.weights[i]);
  }
  averages.updates = 0;
  if (strategy.is_chief()) {
    log_info("the checkpoint has no averaged weights: they begin at its weights");
  }
}

}  // namespace

void capture_learning(const TrainState& state, ordered_json& facts, RunSnapshot& snapshot) {
  each_rate(state, facts, [](ordered_json& described, double base) { described = base; });
  const PlateauState& plateau = state.plateau;
  // Drops alone: so many validations, none of them finite.
  const bool has_seen =
      plateau.best || plateau.since > 0 || plateau.drops > 0 || plateau.observed_epoch >= 0;
  if (has_seen) facts["plateau"] = to_json(plateau);
  if (!state.averages) return;
  facts["averages"] = {{"decay", state.averages->decay}, {"updates", state.averages->updates}};
  snapshot.files[kAveragesFile] = write_tensors(state.averages->values);
}

void keep_base_rates(const Strategy& strategy, const TrainState& state, ordered_json& facts) {
  each_rate(state, facts, [&](ordered_json& saved, double base) {
    if (saved != base && strategy.is_chief()) {
      log_info("the learning rate is scheduled from create_model's ", base,
               "; the checkpoint was made with ", saved);
    }
    saved = base;
  });
}

void restore_learning(const Strategy& strategy, TrainState& state, const ordered_json& facts,
                      const RunSnapshot& snapshot) {
  state.plateau = plateau_of(facts);
  const auto saved = facts.find("averages");
  if (!state.averages) {
    if (saved == facts.end() || !strategy.is_chief()) return;
    log_warning(
        "the checkpoint's averaged weights are dropped, since --ema-decay is 0: from now "
        "on evaluations use the weights themselves");
  } else if (saved == facts.end()) {
    begin_averages(strategy, *state.averages);
  } else {
    restore_averages(strategy, *state.averages, *saved, snapshot);
  }
}

}  // namespace troupe::detail
