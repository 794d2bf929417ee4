#include "cli/flags_builtin.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <type_traits>
#include <utility>

#include "cli/flags_table.h"
#include "cli/numbers.h"
#include "core/clock.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

using Fix = std::optional<std::string>;

constexpr double kLongestSeconds = 30.0 * 24 * 3600;  // no wait is for ever

Flag in_group(Flag flag, const char* group, Flag::Shown shown = Flag::Shown::always) {
  flag.group = group;
  flag.shown = shown;
  return flag;
}

Flag with_value_name(Flag flag, const char* value_name) {
  flag.value_name = value_name;
  return flag;
}

Flag with_alias(Flag flag, const char* alias) {
  flag.aliases.emplace_back(alias);
  return flag;
}

/// A whole number kept in a type of its own; `Target` may be an optional.
template <class Integer, class Target>
Flag whole(const char* name, Target* target, const char* help, Integer least, Integer most) {
  Flag made;
  made.name = name;
  made.kind = Flag::Kind::integer;
  made.value_name = "N";
  made.help = help;
  made.assign = [target, least, most](const std::string& value) -> Fix {
    const auto number = parse_integer<Integer>(value);
    if (!number || *number < least || *number > most) {
      return most == std::numeric_limits<Integer>::max()
                 ? text("give a whole number of at least ", least, ".")
                 : text("give a whole number from ", least, " to ", most, ".");
    }
    *target = *number;
    return std::nullopt;
  };
  made.show = [target]() -> std::string {
    if constexpr (std::is_integral_v<Target>) {
      return text(*target);
    } else {
      return *target ? text(**target) : "";
    }
  };
  return made;
}

/// A real number for which `accepts` holds; `fix` says which those are.
Flag real(const char* name, double* target, const char* help, bool (*accepts)(double),
          const char* fix) {
  Flag made = flag(name, target, help);
  made.assign = [target, accepts, fix](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || !accepts(*number)) return fix;
    *target = *number;
    return std::nullopt;
  };
  return made;
}

Flag seconds(const char* name, std::chrono::milliseconds* target, const char* help) {
  Flag made;
  made.name = name;
  made.kind = Flag::Kind::real;
  made.value_name = "SECS";
  made.help = help;
  made.assign = [target](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || *number < 0.001 || *number > kLongestSeconds) {
      return "give seconds, from 0.001 to 2592000 (30 days).";
    }
    *target = std::chrono::round<std::chrono::milliseconds>(Seconds(*number));
    return std::nullopt;
  };
  made.show = [target] { return number_text(Seconds(*target).count()); };
  return made;
}

Fix assign_strategy(std::string* target, const std::string& value) {
  const std::string name = with_dashes(value);
  if (name == "auto" || name == "one-device" || name == "multi-worker") {
    *target = name;
    return std::nullopt;
  }
  const std::vector<std::string> planned = {"mirrored", "parameter-server", "central-storage",
                                            "tpu"};
  const bool known = std::find(planned.begin(), planned.end(), name) != planned.end();
  return text("give auto, one-device or multi-worker",
              known ? text("; ", name, " is not in this version.") : ".");
}

Fix assign_device(std::string* target, const std::string& value) {
  const bool numbered = value.rfind("cuda:", 0) == 0 &&
                        value.find_first_not_of("0123456789", 5) == std::string::npos &&
                        parse_integer<std::int8_t>(std::string_view(value).substr(5));
  if (value != "cpu" && value != "cuda" && !numbered) return "give cpu, cuda or cuda:N.";
  *target = value == "cuda" ? "cuda:0" : value;
  return std::nullopt;
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "info";
}

Fix assign_log_level(LogLevel* target, const std::string& value) {
  for (const LogLevel level :
       {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error}) {
    if (value == level_name(level)) {
      *target = level;
      return std::nullopt;
    }
  }
  return "give debug, info, warning or error.";
}

Fix assign_nonempty(std::string* target, const std::string& value) {
  if (value.empty()) return "give a value, or leave the flag out.";
  *target = value;
  return std::nullopt;
}

Flag path(const char* name, std::string* target, const char* help, const char* value_name) {
  Flag made = with_value_name(flag(name, target, help), value_name);
  made.assign = [target](const std::string& value) { return assign_nonempty(target, value); };
  return made;
}

void add_training(std::vector<Flag>& flags, TrainOptions& train) {
  const auto add = [&](Flag made) { flags.push_back(in_group(std::move(made), "Training")); };
  constexpr std::int64_t most = INT64_MAX;
  add(whole<std::int64_t>(
      "epochs", &train.epochs,
      "passes over the training examples; unset: 1, or as many as --max-steps needs", 1, most));
  add(whole<std::int64_t>("max-steps", &train.max_steps,
                          "end after this step of the whole training, if epochs do not end earlier",
                          1, most));
  add(whole<std::int64_t>("batch-size", &train.batch_size,
                          "examples per step of all workers together (the global batch)", 1, most));
  add(with_alias(real(
                     "learning-rate", &train.learning_rate, "step size of the optimiser",
                     [](double x) { return x > 0; }, "give a number greater than 0."),
                 "lr"));
  add(real(
      "momentum", &train.momentum, "momentum of the optimiser",
      [](double x) { return x >= 0 && x < 1; }, "give a number of at least 0 and below 1."));
  add(real(
      "weight-decay", &train.weight_decay, "L2 penalty of the optimiser",
      [](double x) { return x >= 0; }, "give a number of at least 0."));
  add(whole<std::uint64_t>("seed", &train.seed, "start of every random sequence", 0, UINT64_MAX));
}

/// A number of seconds that may be unset.
Flag optional_seconds(const char* name, std::optional<double>* target, const char* help) {
  Flag made;
  made.name = name;
  made.kind = Flag::Kind::real;
  made.value_name = "SECS";
  made.help = help;
  made.assign = [target](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || !(*number > 0)) return "give a number greater than 0.";
    *target = *number;
    return std::nullopt;
  };
  made.show = [target] { return *target ? number_text(**target) : std::string(); };
  return made;
}

void add_checkpoints(std::vector<Flag>& flags, TrainOptions& train) {
  const auto add = [&](Flag made) { flags.push_back(in_group(std::move(made), "Checkpoints")); };
  add(with_alias(with_alias(path("model-dir", &train.model_dir,
                                 "folder of checkpoints; unset: nothing is saved", "DIR"),
                            "output-dir"),
                 "job-dir"));
  add(whole<std::int64_t>("save-checkpoints-steps", &train.save_checkpoints_steps,
                          "save every N steps", 1, INT64_MAX));
  add(optional_seconds("save-checkpoints-secs", &train.save_checkpoints_secs,
                       "save every SECS seconds; neither given: 600"));
  add(whole<std::int64_t>("keep-checkpoint-max", &train.keep_checkpoint_max,
                          "keep the newest N checkpoints; 0: all", 0, 1'000'000));
  add(real(
      "keep-checkpoint-every-n-hours", &train.keep_checkpoint_every_n_hours,
      "and one of every N hours for ever", [](double x) { return x > 0; },
      "give a number greater than 0."));
  Flag resume = with_value_name(
      flag("resume", &train.resume, "auto: if there is a checkpoint; must; never"), "WHEN");
  resume.assign = [target = &train.resume](const std::string& value) -> Fix {
    if (value != "auto" && value != "must" && value != "never") return "give auto, must or never.";
    *target = value;
    return std::nullopt;
  };
  add(std::move(resume));
}

void add_data(std::vector<Flag>& flags, DataOptions& data) {
  Flag data_dir = path("data-dir", &data.data_dir,
                       "folder of the data set; \"synthetic\": the program generates one", "DIR");
  data_dir.assign = [target = &data.data_dir](const std::string& value) -> Fix {
    if (value.empty()) return "give a folder, or synthetic for generated data.";
    *target = value == "synthetic" ? "" : value;
    return std::nullopt;
  };
  data_dir.show = [target = &data.data_dir] { return target->empty() ? "synthetic" : *target; };
  flags.push_back(in_group(std::move(data_dir), "Data"));
  flags.push_back(
      in_group(whole<std::int64_t>("train-examples", &data.train_examples,
                                   "use the first N training examples only; 0: all", 0, INT64_MAX),
               "Data"));
}

void add_cluster(std::vector<Flag>& flags, Settings& settings) {
  const auto add = [&](Flag made) { flags.push_back(in_group(std::move(made), "Cluster")); };
  StrategyOptions& strategy = settings.options.strategy;
  Flag name =
      with_value_name(flag("strategy", &strategy.name, "auto, one-device or multi-worker"), "NAME");
  name.assign = [target = &strategy.name](const std::string& v) {
    return assign_strategy(target, v);
  };
  add(std::move(name));
  add(path("cluster", &settings.cluster_file,
           "JSON file that names every worker (as TF_CONFIG, or its \"cluster\" part)", "FILE"));
  add(path("task", &settings.task, "which worker of --cluster this is: worker:1", "TASK"));
  add(whole<std::int64_t>("rank", &settings.rank, "this worker's number, from 0", 0,
                          kMaxWorkers - 1));
  add(whole<std::int64_t>("world-size", &settings.world_size, "number of workers", 1, kMaxWorkers));
  add(path("chief-address", &settings.chief_address, "where rank 0 listens", "HOST:PORT"));
  Flag device = with_value_name(flag("device", &strategy.device, "cpu, cuda or cuda:N"), "DEVICE");
  device.assign = [target = &strategy.device](const std::string& v) {
    return assign_device(target, v);
  };
  add(std::move(device));
  add(whole<std::int32_t>("threads", &strategy.threads,
                          "compute threads of this worker; 0: as the machine allows", 0, 4096));
}

void add_limits(std::vector<Flag>& flags, Settings& settings) {
  const auto add = [&](Flag made) {
    flags.push_back(in_group(std::move(made), "Cluster limits", Flag::Shown::in_help_all));
  };
  GroupOptions& group = settings.options.strategy.group;
  add(whole<std::uint64_t>("generation", &settings.options.strategy.cluster.generation,
                           "which start of this job it is; older workers are refused", 0,
                           UINT64_MAX));
  add(flag("insecure", &group.insecure, "allow addresses beyond this machine, without encryption"));
  add(seconds("timeout", &group.collective_timeout, "limit for one exchange between workers"));
  add(seconds("start-timeout", &group.start_timeout, "limit for all workers to appear"));
  add(seconds("heartbeat-interval", &group.heartbeat_interval, "time between signs of life"));
  add(seconds("heartbeat-timeout", &group.heartbeat_timeout,
              "silence after which a worker counts as lost"));
  Flag address = path("master-addr", &settings.main_address, "the host of --chief-address", "HOST");
  add(std::move(address));
  add(whole<std::int64_t>("master-port", &settings.main_port, "the port of --chief-address", 1,
                          65535));
}

void add_logging(std::vector<Flag>& flags, Options& options) {
  const auto add = [&](Flag made) { flags.push_back(in_group(std::move(made), "Logging")); };
  add(whole<std::int64_t>("log-every", &options.train.log_every, "steps between log lines; 0: none",
                          0, INT64_MAX));
  Flag level;
  level.name = "log-level";
  level.value_name = "LEVEL";
  level.help = "debug, info, warning or error";
  level.assign = [target = &options.log_level](const std::string& v) {
    return assign_log_level(target, v);
  };
  level.show = [target = &options.log_level] { return std::string(level_name(*target)); };
  add(std::move(level));
  add(path("metrics-file", &options.train.metrics_file, "write one JSON object per logged step",
           "FILE"));
  add(flag("json-summary", &options.train.json_summary,
           "end with one line of JSON on stdout (chief)"));
  add(flag("progress", &options.train.progress, "no progress bar on a terminal"));
}

void add_general(std::vector<Flag>& flags, Settings& settings) {
  const auto add = [&](Flag made) { flags.push_back(in_group(std::move(made), "General")); };
  add(path("config", &settings.config_file, "read settings from a JSON file: {\"epochs\": 5}",
           "FILE"));
  add(flag("print-config", &settings.print_config, "print every value and its origin, and stop"));
  add(flag("help", &settings.help, "this text"));
  add(flag("help-all", &settings.help_all, "this text with every flag"));
  add(flag("version", &settings.version, "print the versions, and stop"));
}

}  // namespace

std::vector<Flag> builtin_flags(Settings& settings) {
  std::vector<Flag> flags;
  add_training(flags, settings.options.train);
  add_data(flags, settings.options.data);
  add_checkpoints(flags, settings.options.train);
  add_cluster(flags, settings);
  add_limits(flags, settings);
  add_logging(flags, settings.options);
  add_general(flags, settings);
  return flags;
}

std::string launcher_flag_hint(const std::string& name) {
  for (const char* launcher_flag :
       {"nnodes", "node-rank", "nproc-per-node", "nproc", "max-restarts", "rdzv-endpoint",
        "rdzv-backend", "rdzv-id", "standalone", "workers", "np"}) {
    if (name == launcher_flag) {
      return "it belongs to the launcher, before the program's name (see troupe run --help); a "
             "program takes --rank, --world-size and --chief-address.";
    }
  }
  return "";
}

}  // namespace troupe::detail
