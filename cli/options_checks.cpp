#include "troupe/cli/options_checks.h"

#include "troupe/cli/flags_builtin.h"
#include "troupe/core/error.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

/// What --mode needs beside itself.
void check_mode(const Options& options) {
  const bool uses_model = options.mode != Mode::train && options.mode != Mode::train_and_evaluate;
  const std::string mode = text("--mode ", name_of(options.mode));
  const bool no_folder = options.train.model_dir.empty();
  const bool no_checkpoint = options.use.checkpoint.empty();
  if (options.strategy.cluster.is_evaluator() && options.mode == Mode::train) {
    throw ConfigError(text(options.strategy.cluster.origin,
                           " makes this process the evaluator, but --mode is train."),
                      "give every process of the job --mode train-and-evaluate.");
  }
  const bool launched = options.strategy.cluster.origin.rfind("TF_CONFIG", 0) != 0;
  if (options.strategy.cluster.evaluator == Evaluator::expected && launched &&
      options.mode == Mode::train) {
    throw ConfigError("troupe run --evaluator started an evaluator, but --mode is train.",
                      "give the program --mode train-and-evaluate, or leave --evaluator out.");
  }
  const bool is_server = options.strategy.cluster.is_server();
  if ((is_server || options.strategy.cluster.is_evaluator()) && uses_model) {
    throw ConfigError(
        text(options.strategy.cluster.origin, " makes this process ",
             is_server ? "a parameter server" : "the evaluator", ", but ", mode, " needs none."),
        text("start this process alone, or give the job --mode train",
             is_server ? "." : "-and-evaluate."));
  }
  if (uses_model && options.train.dry_run) {
    throw ConfigError(text("--dry-run is given, but ", mode, " does not train."),
                      "use --mode train or train-and-evaluate, or leave --dry-run out.");
  }
  if (!uses_model && !no_checkpoint) {
    throw ConfigError(text("--checkpoint is given, but ", mode, " would not use it."),
                      "leave it out; training resumes from the newest checkpoint of --model-dir.");
  }
  if (uses_model && no_folder && no_checkpoint) {
    throw ConfigError(text(mode, " has no trained model: --model-dir and --checkpoint are unset."),
                      "name the folder of the training by --model-dir, or one by --checkpoint.");
  }
  if (options.mode == Mode::train_and_evaluate && no_folder) {
    throw ConfigError(
        "--mode train-and-evaluate is given without --model-dir.",
        "name a folder: evaluations read the checkpoints that training writes there.");
  }
  if (options.mode == Mode::export_model && no_folder && options.use.export_dir.empty()) {
    throw ConfigError("--mode export is not told where to write: --export-dir is unset.",
                      "name a folder by --export-dir.");
  }
}

/// Whose schedule would use them.
void check_schedule(const ScheduleOptions& given) {
  const ScheduleOptions unset;
  const char* const flag = given.decay_steps != unset.decay_steps     ? "--decay-steps"
                           : given.decay_factor != unset.decay_factor ? "--decay-factor"
                           : given.final_factor != unset.final_factor ? "--final-factor"
                           : given.metric != unset.metric             ? "--plateau"
                           : given.patience != unset.patience         ? "--plateau"
                                                                      : nullptr;
  if (given.kind != Schedule::constant || flag == nullptr) return;
  throw ConfigError(text(flag, " is given, but --lr-schedule is constant."),
                    "name the schedule that it is for, or leave it out.");
}

/// As the user wrote it: the flag, the variable, or the file's key.
std::string written(const GivenTexts& given, const char* name) {
  const auto found = given.find(name);
  return found == given.end() ? text("--", name) : found->second.origin;
}

void check_training(const Options& options, const GivenTexts& given) {
  const TrainOptions& train = options.train;
  check_schedule(train.schedule);
  if (train.model_dir.empty() && train.resume == Resume::must) {
    throw ConfigError("--resume must is given without --model-dir.",
                      "name the folder of the checkpoints by --model-dir.");
  }
  for (const char* const lone : {"init-only", "init-map", "init-missing"}) {
    if (!train.warm_start.from.empty() || given.count(lone) == 0) continue;
    throw ConfigError(text(written(given, lone), " is given without --init-from."),
                      "name by --init-from what to take the tensors from.");
  }
  if (train.status_port && train.model_dir.empty()) {
    throw ConfigError(text(written(given, "status"), " is given without --model-dir."),
                      "name a folder by --model-dir: the live page shows what training writes "
                      "there.");
  }
  if (train.model_dir.empty() && train.save_histogram_steps > 0) {
    throw ConfigError(
        text(written(given, "save-histogram-steps"), " is given without --model-dir."),
        "name the folder to write them to by --model-dir.");
  }
  if (options.mode == Mode::train_and_evaluate && checkpoint_cadence(train).never()) {
    throw ConfigError("--save-every is 0, but --mode train-and-evaluate evaluates checkpoints.",
                      "give it a number above 0.");
  }
}

/// A training needs the servers that it names, and no flag of theirs without them. The evaluator
/// and whoever only uses a model are given the training's flags, and have none.
void check_servers_are_there(const Options& options) {
  const StrategyOptions& strategy = options.strategy;
  const bool training = options.mode == Mode::train || options.mode == Mode::train_and_evaluate;
  if (!training || strategy.cluster.is_evaluator() || !strategy.cluster.servers.empty()) return;
  if (strategy.chosen_kind() == StrategyKind::parameter_server) {
    throw ConfigError(
        text("--strategy parameter-server has no parameter server: ",
             strategy.cluster.origin == "local"
                 ? "no cluster is given"
                 : text("the cluster of ", strategy.cluster.origin, " has none"),
             "."),
        "start the program by troupe run --workers N --ps M, add the job \"ps\" to TF_CONFIG or "
        "--cluster, or give --servers HOST:PORT,...");
  }
  if (strategy.servers.staleness_bound) {
    throw ConfigError("--staleness-bound is given, but the cluster has no parameter server.",
                      "use --strategy parameter-server, or leave it out.");
  }
}

}  // namespace

void check_carried_out(Mode mode, const ProgramInfo& program) {
  if (mode == Mode::train || !program.train_only) return;
  throw ConfigError(text("--mode ", name_of(mode), " is not carried out by ",
                         program.name.empty() ? "this program" : program.name, "."),
                    "leave --mode out: its main() has a training loop of its own.");
}

void check_options(const Options& options, const GivenTexts& given) {
  options.strategy.validate();
  check_servers_are_there(options);
  check_training(options, given);
  check_mode(options);
}

std::map<std::string, std::string> common_settings(const FlagTable& table,
                                                   const StrategyOptions& strategy) {
  std::map<std::string, std::string> settings;
  for (const Flag& flag : table.flags()) {
    if (!flag.must_match) continue;
    const std::string value = flag.show();
    settings[text("--", flag.name)] = value.empty() ? "unset" : value;
  }
  settings["--strategy"] = name_of(strategy.chosen_kind());  // "auto" may stand for it
  return settings;
}

}  // namespace troupe::detail
