#include "troupe/cli/options.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "troupe/cli/clean_exit.h"
#include "troupe/cli/cluster/address.h"
#include "troupe/cli/command_line.h"
#include "troupe/cli/flag_lookup.h"
#include "troupe/cli/flags_builtin.h"
#include "troupe/cli/flags_reading.h"
#include "troupe/cli/help.h"
#include "troupe/cli/options_checks.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/error.h"
#include "troupe/core/heap.h"
#include "troupe/core/log.h"
#include "troupe/core/options/run_origin.h"
#include "troupe/core/text.h"

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
      return help_text(table, program, detail::FlagShown::always);
    }
    if (argument == "--help-all" || argument == "--help_all") {
      return help_text(table, program, detail::FlagShown::in_help_all);
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

/// Where the secret comes from; never what it is.
std::optional<GivenText> secret_line(const SecretSource& secret) {
  using Kind = SecretSource::Kind;
  if (secret.kind == Kind::descriptor) return GivenText{"handed down", secret.origin};
  if (secret.kind == Kind::user_key) return GivenText{secret.path, "default"};
  if (secret.kind == Kind::missing) return GivenText{"missing", "default"};
  return std::nullopt;
}

/// The values of --print-config; cluster facts as they were resolved. `model_dir_of`: the document
/// that named --model-dir, if one did.
GivenTexts config_lines(const GivenTexts& given, const detail::FlagTable& table,
                        const Cluster& cluster, const SecretSource& secret,
                        const std::string& model_dir_of) {
  GivenTexts lines = given;
  for (auto& [name, line] : lines) line.value = table.find(name)->flag->show();
  const auto put_fact = [&](const char* name, const std::string& value) {
    const auto line = lines.find(name);
    if (line != lines.end() && line->second.value == value) return;
    lines[name] = {value, cluster.origin == "local" ? "default" : cluster.origin};
  };
  put_fact("task", cluster.task());
  put_fact("rank", text(cluster.rank));
  put_fact("world-size", text(cluster.world_size()));
  put_fact("generation", text(cluster.generation));
  const auto address_of = [](const Member& each) { return address_text(*each.address); };
  if (!cluster.servers.empty()) put_fact("servers", join(cluster.servers, ",", address_of));
  const auto& chief = cluster.members.front().address;
  if (chief) put_fact("chief-address", address_text(*chief));
  if (auto line = secret_line(secret)) lines["secret-file"] = std::move(*line);
  if (lines.count("model-dir") == 0 && !model_dir_of.empty()) {
    lines["model-dir"] = {table.find("model-dir")->flag->show(), model_dir_of};
  }
  return lines;
}

/// TF_CONFIG's model_dir, where no flag gives one.
/// Returns the document's name if it gave it.  Throws: ConfigError where both speak and differ.
std::string take_model_dir(const ResolvedCluster& resolved, std::string& model_dir,
                           Outcome& outcome) {
  if (!resolved.model_dir || model_dir == *resolved.model_dir) return "";
  if (!model_dir.empty()) {
    throw ConfigError(text(resolved.model_dir_of, ".model_dir is \"", *resolved.model_dir,
                           "\", but the program was given \"", model_dir, "\"."),
                      "give one of them, or the same twice.");
  }
  model_dir = *resolved.model_dir;
  outcome.notes.push_back(
      {LogLevel::info, text("--model-dir: ", model_dir, ", from ", resolved.model_dir_of)});
  return resolved.model_dir_of;
}

/// The model directory that a checkpoint's path names; "" for none.
std::string folder_of(const std::string& checkpoint) {
  if (checkpoint.empty()) return "";
  const std::string folder = std::filesystem::path(checkpoint).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Flags that --mode train does not use. A warning, not an error: the same settings often serve
/// several modes, as those of training serve the modes that use a model.
void note_unused(const GivenTexts& given, const detail::FlagTable& table, const Options& options,
                 Outcome& outcome) {
  if (options.mode != Mode::train || !options.strategy.cluster.is_chief()) return;
  std::vector<std::string> unused;
  for (const auto& [name, value] : given) {
    if (table.find(name)->flag->evaluates) unused.push_back(value.origin);
  }
  if (unused.empty()) return;
  outcome.notes.push_back(
      {LogLevel::warning, text("without effect: ", join(unused),
                               ". --mode train validates every epoch and exports nothing; "
                               "--mode train-and-evaluate evaluates checkpoints and exports.")});
}

Outcome complete(Settings& settings, const detail::FlagTable& table, const GivenTexts& given,
                 const Environment& environment, const std::string& program,
                 const std::vector<std::string>& warnings) {
  Outcome outcome;
  ResolvedCluster resolved = resolve_cluster(given, environment);
  for (const std::string& line : warnings) outcome.notes.push_back({LogLevel::warning, line});
  outcome.notes.insert(outcome.notes.end(), resolved.notes.begin(), resolved.notes.end());
  settings.options.strategy.cluster = std::move(resolved.cluster);
  settings.options.strategy.must_match = detail::common_settings(table, settings.options.strategy);
  const std::string model_dir_of =
      take_model_dir(resolved, settings.options.train.model_dir, outcome);
  settings.options.train.generation = settings.options.strategy.cluster.generation;
  detail::check_options(settings.options, given);
  const bool trains =
      settings.options.mode == Mode::train || settings.options.mode == Mode::train_and_evaluate;
  const Cluster& cluster = settings.options.strategy.cluster;
  outcome.secret = choose_secret(given, cluster, trains, environment);
  note_unused(given, table, settings.options, outcome);
  if (settings.options.train.model_dir.empty()) {
    settings.options.train.model_dir = folder_of(settings.options.use.checkpoint);
  }
  auto shown = detail::config_settings(
      table, config_lines(given, table, cluster, outcome.secret, model_dir_of));
  if (settings.print_config) {
    outcome.text = detail::print_config_text(shown);
    return outcome;
  }
  RunOrigin origin{program, name_of(settings.options.mode), std::move(shown)};
  settings.options.train.origin = std::make_shared<const RunOrigin>(std::move(origin));
  outcome.options = std::move(settings.options);
  return outcome;
}

}  // namespace

Outcome parse_command_line(const std::vector<std::string>& arguments,
                           const Environment& environment, std::vector<Flag> extra_flags,
                           const ProgramInfo& program) {
  Settings settings;
  const detail::FlagTable table(
      detail::with_own(detail::builtin_flags(settings), std::move(extra_flags)));
  if (auto requested = requested_text(arguments, table, program)) {
    Outcome outcome;
    outcome.text = std::move(*requested);
    return outcome;
  }
  detail::CommandLine line = read_command_line(arguments, table);
  settings.options.extra = std::move(line.extra);
  std::vector<std::string> warnings;
  const GivenTexts given = given_by_all(std::move(line.given), environment, table, warnings);
  assign(given, table);
  detail::check_carried_out(settings.options.mode, program);
  return complete(settings, table, given, environment, program.name, warnings);
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
    (void)detail::print_text(outcome.text);
    throw detail::CleanExit{0};
  }
  const Cluster& cluster = outcome.options->strategy.cluster;
  const bool one_of_many =
      cluster.world_size() > 1 || !cluster.servers.empty() || cluster.is_evaluator();
  configure_log(outcome.options->log_level, one_of_many ? cluster.task() : "");
  for (const ParseNote& note : outcome.notes) log(note.level, note.text);
  outcome.options->strategy.group.secret = take_secret(outcome.secret, cluster);
  if (outcome.options->tune_malloc && prepare_heap(outcome.options->train.loader.threads)) {
    log_debug(
        "malloc keeps the memory of a step for the next one; --no-tune-malloc leaves it alone");
  }
  return std::move(*outcome.options);
}

}  // namespace troupe
