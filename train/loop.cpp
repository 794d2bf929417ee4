#include "troupe/train/loop.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/training_run.h"

namespace troupe {
namespace {

nlohmann::ordered_json or_null(const std::optional<Report>& report) {
  return report ? to_json(*report) : nullptr;
}

}  // namespace

History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Callbacks callbacks) {
  TrainingRun run(strategy, hooks, state, data, options, std::move(callbacks));
  for (auto& epoch : run.epochs()) {
    for (const auto& batch : epoch) run.train_step(batch);
    run.validate();
  }
  return run.finish();
}

void summarize(Strategy& strategy, const TrainState& state, const History& history,
               const std::optional<Report>& test, const TrainOptions& options) {
  if (!strategy.pace().coordinates()) return;
  const std::string facts = strategy.pace().facts();
  const bool alone = !facts.empty();  // the chief speaks of the servers' parameters
  const std::string hash = common_parameter_hash(strategy, state);
  log(strategy.is_chief() ? LogLevel::info : LogLevel::debug,
      alone ? text("parameter_hash ", hash, ", of the parameter servers at step ", state.step)
            : text("parameter_hash ", hash, ", equal on ", strategy.view().replicas_in_sync(),
                   strategy.view().replicas_in_sync() == 1 ? " replica" : " replicas"));
  if (!strategy.is_chief()) return;
  const double rate =
      history.seconds > 0 ? static_cast<double>(history.examples) / history.seconds : 0;
  if (test) log_info(to_line(*test));
  if (!options.json_summary) return;
  nlohmann::ordered_json json;
  json["strategy"] = strategy.name();
  json["world_size"] = strategy.world_size();
  json["replicas"] = strategy.view().replicas_in_sync();
  json["global_batch_size"] = options.batch_size;
  json["global_step"] = state.step;
  json["epochs"] = history.epochs;
  json["seconds"] = history.seconds;
  json["examples_per_sec"] = rate;
  if (!history.waiting.empty()) json["waiting"] = detail::json_of(history.waiting);
  json["train"] = or_null(history.train);
  json["validation"] = or_null(history.validation);
  json["test"] = or_null(test);
  json["parameter_hash"] = hash;
  // Counted over all workers; the numbers above are the chief's.
  if (alone) json["parameter_servers"] = nlohmann::ordered_json::parse(facts);
  (void)detail::print_text(json.dump() + "\n");
}

}  // namespace troupe
