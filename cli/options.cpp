#include "cli/options.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

#include "cli/address.h"
#include "cli/cluster_spec.h"
#include "cli/config_file.h"
#include "cli/flags_builtin.h"
#include "cli/flags_reading.h"
#include "cli/flags_table.h"
#include "cli/help.h"
#include "cli/run_main.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

using detail::GivenText;
using detail::GivenTexts;
using detail::Settings;

/// --help and --version answer even where the rest of the command line is wrong.
std::optional<std::string> requested_text(const std::vector<std::string>& arguments,
                                          const detail::FlagTable& table,
                                          const ProgramInfo& program) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument == "--help" || argument == "-h") {
      return help_text(table, program, detail::HelpScope::common);
    }
    if (argument == "--help-all" || argument == "--help_all") {
      return help_text(table, program, detail::HelpScope::all);
    }
    if (argument == "--version") return detail::version_text();
  }
  return std::nullopt;
}

/// All that was given, each flag by the strongest source that speaks.
GivenTexts given_by_all(GivenTexts command_line, const Environment& environment,
                        const detail::FlagTable& table, std::vector<std::string>& warnings) {
  GivenTexts given = std::move(command_line);
  given.merge(read_environment(environment, table, warnings));
  const auto config = given.find("config");
  if (config != given.end()) {
    given.merge(read_config_file(config->second.value, config->second.origin, table));
  }
  return given;
}

/// --master-addr and --master-port are --chief-address in two parts.
void join_main_address(const GivenTexts& given, Settings& settings) {
  const auto host = given.find("master-addr");
  const auto port = given.find("master-port");
  if (host == given.end() && port == given.end()) return;
  if (host == given.end()) {
    throw ConfigError(text(port->second.origin, " stands without --master-addr."),
                      "give --chief-address HOST:PORT instead of both.");
  }
  if (given.count("chief-address") != 0) {
    throw ConfigError(text(host->second.origin, " and --chief-address are both given."),
                      "keep --chief-address.");
  }
  const bool v6 = settings.main_address.find(':') != std::string::npos;
  settings.chief_address = v6 ? "[" + settings.main_address + "]" : settings.main_address;
  if (settings.main_port) settings.chief_address += text(":", *settings.main_port);
}

template <class T>
std::optional<GivenValue<T>> requested(const GivenTexts& given, const char* name, const T& value) {
  const auto found = given.find(name);
  if (found == given.end()) return std::nullopt;
  return GivenValue<T>{value, found->second.origin, static_cast<int>(found->second.source)};
}

ClusterRequest cluster_request(const GivenTexts& given, const Settings& settings) {
  ClusterRequest request;
  request.cluster_file = requested(given, "cluster", settings.cluster_file);
  request.task = requested(given, "task", settings.task);
  request.rank = requested(given, "rank", settings.rank);
  request.world_size = requested(given, "world-size", settings.world_size);
  const char* address = given.count("master-addr") != 0 ? "master-addr" : "chief-address";
  request.chief_address = requested(given, address, settings.chief_address);
  request.generation = requested(given, "generation", settings.options.strategy.cluster.generation);
  return request;
}

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::train:
      return "train";
    case Mode::train_and_evaluate:
      return "train-and-evaluate";
    case Mode::evaluate:
      return "evaluate";
    case Mode::predict:
      return "predict";
    case Mode::export_model:
      return "export";
  }
  return "train";
}

void check_carried_out(Mode mode, const ProgramInfo& program) {
  if (mode == Mode::train || program.modes == ProgramInfo::Modes::all) return;
  throw ConfigError(text("--mode ", mode_name(mode), " is not carried out by ",
                         program.name.empty() ? "this program" : program.name, "."),
                    "leave --mode out: its main() has a training loop of its own.");
}

bool stops_early(const EvalOptions& eval) {
  return !(eval.stop_if_no_decrease + eval.stop_if_no_increase + eval.stop_if_lower +
           eval.stop_if_higher)
              .empty();
}

/// What --mode needs beside itself.
void check_mode(const Options& options) {
  const bool uses_model = options.mode != Mode::train && options.mode != Mode::train_and_evaluate;
  const std::string mode = text("--mode ", mode_name(options.mode));
  const bool no_folder = options.train.model_dir.empty();
  const bool no_checkpoint = options.use.checkpoint.empty();
  if (options.train.task.is_evaluator() && options.mode == Mode::train) {
    throw ConfigError(text(options.strategy.cluster.origin,
                           " makes this process the evaluator, but --mode is train."),
                      "give every process of the job --mode train-and-evaluate.");
  }
  const bool launched = options.strategy.cluster.origin.rfind("TF_CONFIG", 0) != 0;
  if (options.train.task.evaluator_expected && launched && options.mode == Mode::train) {
    throw ConfigError("troupe run --evaluator started an evaluator, but --mode is train.",
                      "give the program --mode train-and-evaluate, or leave --evaluator out.");
  }
  if (options.train.task.is_evaluator() && uses_model) {
    throw ConfigError(text(options.strategy.cluster.origin,
                           " makes this process the evaluator, but ", mode, " needs none."),
                      "start this process alone, or give the job --mode train-and-evaluate.");
  }
  if (options.mode != Mode::train_and_evaluate && stops_early(options.eval)) {
    throw ConfigError(text("--stop-if-... is given, but ", mode, " evaluates nothing meanwhile."),
                      "use --mode train-and-evaluate, or leave the flag out.");
  }
  if (!uses_model && !no_checkpoint) {
    throw ConfigError(text("--checkpoint is given, but ", mode, " would not use it."),
                      "leave it out; training goes on from the newest checkpoint of --model-dir.");
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

void check_training(const Options& options) {
  const TrainOptions& train = options.train;
  if (train.save_checkpoints_steps && train.save_checkpoints_secs) {
    throw ConfigError("--save-checkpoints-steps and --save-checkpoints-secs are both given.",
                      "give one of the two.");
  }
  if (train.steps && train.max_steps) {
    throw ConfigError("--steps and --max-steps are both given.",
                      "give --max-steps for a last step, or --steps for so many more.");
  }
  if (train.model_dir.empty() && train.resume == "must") {
    throw ConfigError("--resume must is given without --model-dir.",
                      "name the folder of the checkpoints by --model-dir.");
  }
  const char* const never = train.save_checkpoints_steps == 0  ? "--save-checkpoints-steps"
                            : train.save_checkpoints_secs == 0 ? "--save-checkpoints-secs"
                                                               : nullptr;
  if (options.mode == Mode::train_and_evaluate && never != nullptr) {
    throw ConfigError(text(never, " is 0, but --mode train-and-evaluate evaluates checkpoints."),
                      "give --save-checkpoints-steps or --save-checkpoints-secs a number above 0.");
  }
}

void check_replicas(const StrategyOptions& strategy) {
  const auto named = static_cast<int>(strategy.devices.size());
  if (named != 0 && strategy.replicas != 0 && strategy.replicas != named) {
    throw ConfigError(text("--replicas is ", strategy.replicas, ", but --devices names ", named,
                           named == 1 ? " device." : " devices."),
                      "name one device for each replica, or leave one of the two flags out.");
  }
  if (named != 0 && strategy.device != StrategyOptions().device) {
    throw ConfigError(text("--device ", strategy.device, " and --devices are both given."),
                      "keep --devices, which names the device of each replica.");
  }
  if (strategy.name == "one-device" && strategy.local_replicas() > 1) {
    throw ConfigError(
        text("--strategy one-device trains with one replica, but ",
             named == 0 ? "--replicas" : "--devices", " asks for ", strategy.local_replicas(), "."),
        "use --strategy mirrored, or leave --replicas and --devices out.");
  }
}

void check_together(const Options& options) {
  const StrategyOptions& strategy = options.strategy;
  const bool alone = strategy.name == "one-device" || strategy.name == "mirrored";
  if (alone && strategy.cluster.world_size() > 1) {
    throw ConfigError(
        text("--strategy ", strategy.name, " trains with one worker, but ", strategy.cluster.origin,
             " describes ", strategy.cluster.world_size(), "."),
        "use --strategy multi-worker, or --world-size 1 to train alone.");
  }
  check_replicas(strategy);
  if (strategy.group.heartbeat_timeout <= strategy.group.heartbeat_interval) {
    throw ConfigError("--heartbeat-timeout is not longer than --heartbeat-interval.",
                      "give several intervals, for example five.");
  }
  check_training(options);
  check_mode(options);
}

/// What every worker must be told alike, since it shapes the training itself.
std::map<std::string, std::string> common_settings(const detail::FlagTable& table) {
  std::map<std::string, std::string> settings;
  for (const char* name : {"mode",
                           "epochs",
                           "max-steps",
                           "steps",
                           "batch-size",
                           "learning-rate",
                           "momentum",
                           "weight-decay",
                           "seed",
                           "on-non-finite",
                           "train-examples",
                           "log-every",
                           "save-summary-steps",
                           "save-checkpoints-steps",
                           "save-checkpoints-secs",
                           "stop-if-no-decrease",
                           "stop-if-no-increase",
                           "stop-if-lower",
                           "stop-if-higher",
                           "min-steps"}) {
    const std::string value = table.find(name)->flag->show();
    settings[text("--", name)] = value.empty() ? "unset" : value;
  }
  return settings;
}

/// The values of --print-config; cluster facts as they were resolved. `model_dir_of`: the document
/// that named --model-dir, if one did.
std::map<std::string, detail::ConfigLine> config_lines(const GivenTexts& given,
                                                       const detail::FlagTable& table,
                                                       const Cluster& cluster,
                                                       const std::string& model_dir_of) {
  std::map<std::string, detail::ConfigLine> lines;
  for (const auto& [name, value] : given) {
    lines[name] = {table.find(name)->flag->show(), value.origin};
  }
  const auto put_fact = [&](const char* name, const std::string& value) {
    const auto line = lines.find(name);
    if (line != lines.end() && line->second.value == value) return;
    lines[name] = {value, cluster.origin == "local" ? "default" : cluster.origin};
  };
  put_fact("task", cluster.task());
  put_fact("rank", text(cluster.rank));
  put_fact("world-size", text(cluster.world_size()));
  put_fact("generation", text(cluster.generation));
  const auto& chief = cluster.members.front().address;
  if (chief) put_fact("chief-address", address_text(*chief));
  if (lines.count("model-dir") == 0 && !model_dir_of.empty()) {
    lines["model-dir"] = {table.find("model-dir")->flag->show(), model_dir_of};
  }
  return lines;
}

/// TF_CONFIG's model_dir, where no flag gives one.
/// Returns the document's name if it gave it.
std::string take_model_dir(const ResolvedCluster& resolved, std::string& model_dir,
                           Outcome& outcome) {
  if (!resolved.document) return "";
  std::optional<std::string> given;
  if (!model_dir.empty()) given = model_dir;
  const auto agreed = agreed_model_dir(*resolved.document, given);
  if (!agreed || given) return "";
  model_dir = *agreed;
  outcome.notes.push_back(
      {LogLevel::info, text("--model-dir: ", model_dir, ", from ", resolved.document->name)});
  return resolved.document->name;
}

/// The model directory that a checkpoint's path names; "" for none.
std::string folder_of(const std::string& checkpoint) {
  const std::string path = checkpoint.substr(0, checkpoint.find_last_not_of('/') + 1);
  const auto slash = path.rfind('/');
  if (path.empty()) return "";
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

Outcome complete(Settings& settings, const detail::FlagTable& table, const GivenTexts& given,
                 const Environment& environment, const std::vector<std::string>& warnings) {
  Outcome outcome;
  ResolvedCluster resolved = resolve_cluster(cluster_request(given, settings), environment);
  for (const std::string& line : warnings) outcome.notes.push_back({LogLevel::warning, line});
  for (const std::string& line : resolved.warnings) {
    outcome.notes.push_back({LogLevel::warning, line});
  }
  for (const std::string& line : resolved.information) {
    outcome.notes.push_back({LogLevel::info, line});
  }
  settings.options.strategy.cluster = std::move(resolved.cluster);
  settings.options.strategy.must_match = common_settings(table);
  settings.options.train.task = resolved.task;
  const std::string model_dir_of =
      take_model_dir(resolved, settings.options.train.model_dir, outcome);
  settings.options.train.generation = settings.options.strategy.cluster.generation;
  check_together(settings.options);
  if (settings.options.train.model_dir.empty()) {
    settings.options.train.model_dir = folder_of(settings.options.use.checkpoint);
  }
  if (settings.print_config) {
    outcome.text = print_config_text(
        table, config_lines(given, table, settings.options.strategy.cluster, model_dir_of));
  } else {
    outcome.options = std::move(settings.options);
  }
  return outcome;
}

}  // namespace

Outcome parse_command_line(const std::vector<std::string>& arguments,
                           const Environment& environment, std::vector<Flag> extra_flags,
                           const ProgramInfo& program) {
  Settings settings;
  std::vector<Flag> flags = detail::builtin_flags(settings);
  std::move(extra_flags.begin(), extra_flags.end(), std::back_inserter(flags));
  const detail::FlagTable table(std::move(flags));
  if (auto requested = requested_text(arguments, table, program)) {
    return Outcome{std::nullopt, std::move(*requested), {}};
  }
  detail::CommandLine line = read_command_line(arguments, table);
  settings.options.extra = std::move(line.extra);
  std::vector<std::string> warnings;
  const GivenTexts given = given_by_all(std::move(line.given), environment, table, warnings);
  assign(given, table);
  check_carried_out(settings.options.mode, program);
  join_main_address(given, settings);
  return complete(settings, table, given, environment, warnings);
}

Options parse_options(int argc, const char* const* argv, std::vector<Flag> extra_flags,
                      ProgramInfo program) {
  const std::vector<std::string> words(argv, argv + argc);
  if (program.name.empty() && !words.empty()) {
    program.name = words.front().substr(words.front().find_last_of('/') + 1);
  }
  const std::vector<std::string> arguments(words.begin() + (words.empty() ? 0 : 1), words.end());
  Outcome outcome =
      parse_command_line(arguments, process_environment(), std::move(extra_flags), program);
  if (!outcome.options) {
    std::fputs(outcome.text.c_str(), stdout);
    std::fflush(stdout);
    throw detail::CleanExit{0};
  }
  const Cluster& cluster = outcome.options->strategy.cluster;
  const bool one_of_many = cluster.world_size() > 1 || outcome.options->train.task.is_evaluator();
  configure_log(outcome.options->log_level, one_of_many ? cluster.task() : "");
  for (const ParseNote& note : outcome.notes) log(note.level, note.text);
  return std::move(*outcome.options);
}

}  // namespace troupe
