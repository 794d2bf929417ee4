#include "troupe/cli/flags_builtin.h"

#include <algorithm>
#include <set>
#include <utility>

#include "troupe/cli/flag_lookup.h"
#include "troupe/cli/flags_making.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kMaxReplicas = 1024;  // of one process

Flag strategy_flag(StrategyKind* target) {
  using Kind = StrategyKind;
  const auto kinds =
      named<Kind>({Kind::automatic, Kind::one_device, Kind::mirrored, Kind::central_storage,
                   Kind::multi_worker, Kind::parameter_server});
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.emplace_back(name);
  Flag made = choice("strategy", target, "", "NAME", kinds);
  made.help = listed(names, " or ");
  made.assign = [read = made.assign](const std::string& value) {
    if (value == "tpu") return Fix("tpu is not in this version.");
    return read(value);
  };
  return made;
}

/// `value` is `kind` and a number: "cuda:1".
bool is_numbered(const std::string& value, const std::string& kind) {
  return value.rfind(kind + ":", 0) == 0 &&
         value.find_first_not_of("0123456789", kind.size() + 1) == std::string::npos &&
         parse_integer<std::int8_t>(std::string_view(value).substr(kind.size() + 1));
}

/// "cpu:0-3" as cpu:0,cpu:1,cpu:2,cpu:3; another name as it is.
std::vector<std::string> expanded(const std::string& name) {
  const auto colon = name.find(':');
  const auto dash = name.find('-');
  if (colon == std::string::npos || dash == std::string::npos) return {name};
  const auto first = parse_integer<std::int64_t>(name.substr(colon + 1, dash - colon - 1));
  const auto last = parse_integer<std::int64_t>(name.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= kMaxReplicas) return {name};
  std::vector<std::string> names;
  for (std::int64_t i = *first; i <= *last; ++i)
    names.push_back(text(name.substr(0, colon), ':', i));
  return names;
}

/// A device for each replica; each is named once: the CPU's replicas are told apart by a number of
/// their own.
Flag devices_flag(StrategyOptions& strategy) {
  Flag made = name_list("devices", &strategy.devices,
                        "the device of each replica in this process: cpu, cuda, cuda:0,cuda:1 or "
                        "cpu:0-3",
                        {}, "");
  made.assign = [&strategy](const std::string& value) -> Fix {
    std::vector<std::string> names;
    for (const std::string& part : split(value, ',')) {
      for (std::string& name : expanded(part == "cuda" ? "cuda:0" : part)) {
        const bool known = name == "cpu" || is_numbered(name, "cpu") || is_numbered(name, "cuda");
        if (!known || std::find(names.begin(), names.end(), name) != names.end()) {
          return "give one device for each replica, each once: cuda:0,cuda:1 or cpu:0-3.";
        }
        names.push_back(std::move(name));
      }
    }
    strategy.devices = std::move(names);
    return std::nullopt;
  };
  made.show = [&strategy] {
    return strategy.devices.empty() ? strategy.device : join(strategy.devices, ",");
  };
  return made;
}

/// How often checkpoints are saved: "500" steps, or "90s", "10m", "2h".
Flag save_every(TrainOptions& train) {
  constexpr std::pair<char, double> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  const auto assign = [&train, kUnits](const std::string& value) -> Fix {
    const Fix fix = "give a number of steps, 500, or a time, 90s, 10m or 2h; 0: never.";
    std::optional<std::int64_t> steps = parse_integer<std::int64_t>(value);
    std::optional<double> seconds;
    for (const auto& [letter, unit] : kUnits) {
      if (steps || value.empty() || value.back() != letter) continue;
      const auto number = parse_real(std::string_view(value).substr(0, value.size() - 1));
      if (number) seconds = *number * unit;
    }
    if (steps ? *steps < 0 : !seconds || *seconds <= 0) return fix;
    train.save_checkpoints_steps = steps;
    train.save_checkpoints_secs = seconds;
    return std::nullopt;
  };
  const auto show = [&train] {
    if (train.save_checkpoints_steps) return text(*train.save_checkpoints_steps);
    return number_text(train.save_checkpoints_secs.value_or(600)) + "s";
  };
  return {"save-every", FlagKind::text,
          "N",          "save every N steps, or every 90s, 10m or 2h; 0: never",
          assign,       show};
}

void add_mode(std::vector<Flag>& flags, Options& options) {
  FlagGroup list(flags, "Mode");
  list.add(matching(choice<Mode>("mode", &options.mode,
                                 "train, train-and-evaluate, evaluate, predict or export", "MODE",
                                 named<Mode>({Mode::train, Mode::train_and_evaluate, Mode::evaluate,
                                              Mode::predict, Mode::export_model}))));
  list.add(matching(
      flag("dry-run", &options.train.dry_run,
           "check all that can be checked before step 1, train nothing, save nothing, and stop")));
  list.add(flag("summary", &options.train.summary,
                "print the models' parameters as a table before training (chief)"));
}

void add_training(std::vector<Flag>& flags, TrainOptions& train) {
  FlagGroup list(flags, "Training");
  list.add(matching(
      at_least(1, "epochs", &train.epochs,
               "passes over the training examples; unset: 1, or as many as --max-steps needs")));
  list.add(matching(
      at_least(1, "max-steps", &train.max_steps,
               "end after this step of the whole training, if epochs do not end earlier")));
  list.add(matching(at_least(1, "batch-size", &train.batch_size,
                             "examples per step of all replicas together (the global batch)")));
  list.add(matching(real(
      "learning-rate", &train.learning_rate, "step size of the optimiser",
      [](double x) { return x > 0; }, "give a number greater than 0.")));
  list.add(matching(real(
      "momentum", &train.momentum, "momentum of the optimiser",
      [](double x) { return x >= 0 && x < 1; }, "give a number of at least 0 and below 1.")));
  list.add(matching(real(
      "weight-decay", &train.weight_decay, "L2 penalty of the optimiser",
      [](double x) { return x >= 0; }, "give a number of at least 0.")));
  list.add(matching(
      whole<std::uint64_t>("seed", &train.seed, "start of every random sequence", 0, UINT64_MAX)));
  list.add_rare(matching(
      choice<OnNonFinite>("on-non-finite", &train.on_non_finite,
                          "fail: a loss or gradient that is not finite is an error; stop: it ends "
                          "the training before that step",
                          "WHAT", {{"fail", OnNonFinite::fail}, {"stop", OnNonFinite::stop}})));
  list.add_rare(matching(
      at_least(0, "check-weights-every", &train.check_weights_every,
               "steps between two comparisons of all workers' weights, which each save makes, "
               "too; 0: saves only")));
}

/// OLD=NEW, separated by commas.
Flag prefixes(const char* name, std::vector<std::pair<std::string, std::string>>* target,
              const char* help) {
  const auto assign = [target](const std::string& value) -> Fix {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string& pair : split(value, ',')) {
      const auto equals = pair.find('=');
      if (equals == std::string::npos)
        return "give OLD=NEW, or several with commas: module.=,backbone.=net.";
      pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    }
    *target = std::move(pairs);
    return std::nullopt;
  };
  const auto show = [target] {
    std::vector<std::string> pairs;
    for (const auto& [old, now] : *target) pairs.push_back(old + "=" + now);
    return join(pairs, ",");
  };
  return {name, FlagKind::text, "OLD=NEW", help, assign, show};
}

void add_checkpoints(std::vector<Flag>& flags, TrainOptions& train) {
  FlagGroup list(flags, "Checkpoints");
  list.add(
      path("model-dir", &train.model_dir, "folder of checkpoints; unset: nothing is saved", "DIR"));
  list.add(matching(save_every(train)));
  list.add(whole<std::int64_t>("keep-checkpoint-max", &train.keep_checkpoint_max,
                               "keep the newest N checkpoints; 0: all", 0, 1'000'000));
  list.add_rare(real(
      "keep-checkpoint-every-n-hours", &train.keep_checkpoint_every_n_hours,
      "and keep one per N hours permanently", [](double x) { return x > 0; },
      "give a number greater than 0."));
  list.add(choice("resume", &train.resume, "auto: if there is a checkpoint; must; never", "WHEN",
                  named<Resume>({Resume::automatic, Resume::must, Resume::never})));
  list.add(path("init-from", &train.warm_start.from,
                "without a checkpoint to resume from, start from the weights of this checkpoint, "
                "model directory, export or safetensors file",
                "PATH"));
  list.add_rare(
      name_list("init-only", &train.warm_start.variables,
                "with --init-from: the parameters and buffers whose whole names match one of "
                "these regular expressions; all without",
                {}, ""));
  list.add_rare(prefixes("init-map", &train.warm_start.prefixes,
                         "with --init-from: how names begin there and in this model, as in "
                         "module.=,backbone.=net."));
  list.add_rare(
      name_list("init-missing", &train.warm_start.missing,
                "with --init-from: the parameters and buffers that may be missing there, as "
                "regular expressions of whole names",
                {}, ""));
}

void add_data(std::vector<Flag>& flags, DataOptions& data, TrainOptions& train) {
  FlagGroup list(flags, "Data");
  Flag data_dir = path("data-dir", &data.data_dir,
                       "folder of the data set; \"synthetic\": the program generates one", "DIR");
  data_dir.assign = [target = &data.data_dir](const std::string& value) -> Fix {
    if (value.empty()) return "give a folder, or synthetic for generated data.";
    *target = value == "synthetic" ? "" : value;
    return std::nullopt;
  };
  data_dir.show = [target = &data.data_dir] { return target->empty() ? "synthetic" : *target; };
  list.add(std::move(data_dir));
  list.add(matching(at_least(0, "train-examples", &data.train_examples,
                             "use the first N training examples only; 0: all")));
  list.add_rare(
      matching(flag("drop-last", &train.drop_last,
                    "leave the last batch of a training epoch out if it has fewer examples")));
  list.add(whole<std::int32_t>("loader-threads", &train.loader.threads,
                               "threads that read examples ahead; the numbers do not depend on it",
                               1, kMostLoaderThreads));
}

void add_cluster(std::vector<Flag>& flags, Settings& settings) {
  FlagGroup list(flags, "Cluster");
  StrategyOptions& strategy = settings.options.strategy;
  list.add(strategy_flag(&strategy.kind));
  list.add(path("cluster", &settings.cluster_file,
                "JSON file that names every worker (as TF_CONFIG, or its \"cluster\" part)",
                "FILE"));
  list.add(path("task", &settings.task,
                "which task this is: worker:1 or ps:0 of --cluster; evaluator needs none", "TASK"));
  list.add_rare(whole<std::int64_t>("rank", &settings.rank, "this worker's number, from 0", 0,
                                    kMaxWorkers - 1));
  list.add_rare(
      whole<std::int64_t>("world-size", &settings.world_size, "number of workers", 1, kMaxWorkers));
  list.add_rare(
      path("chief-address", &settings.chief_address, "where rank 0 listens", "HOST:PORT"));
  list.add(devices_flag(strategy));
  list.add(
      whole<std::int32_t>("threads", &strategy.threads,
                          "compute threads of each replica; 0: as the machine allows, one with "
                          "--virtual-replicas",
                          0, 4096));
}

void add_limits(std::vector<Flag>& flags, Settings& settings) {
  FlagGroup list(flags, "Cluster limits");
  GroupOptions& group = settings.options.strategy.group;
  list.add_hidden(whole<std::uint64_t>("generation", &settings.options.strategy.cluster.generation,
                                       "which start of this job it is; older workers are refused",
                                       0, UINT64_MAX));
  list.add_rare(
      limit("timeout", &group.collective_timeout, "limit for one exchange between workers"));
  list.add_rare(
      limit("start-timeout", &group.start_timeout, "time limit for all workers to connect"));
  list.add_rare(matching(limit("heartbeat-timeout", &group.heartbeat_timeout,
                               "silence after which a worker counts as lost")));
}

void add_security(std::vector<Flag>& flags, Settings& settings) {
  FlagGroup list(flags, "Security");
  list.add(path("secret-file", &settings.secret_file,
                "the secret that all processes of the job share (`troupe secret` makes one); "
                "unset: what troupe run hands down, or on one machine this user's key",
                "FILE"));
  list.add_hidden(whole<std::int32_t>("secret-fd", &settings.secret_descriptor,
                                      "the secret as troupe run hands it down: a sealed file in "
                                      "memory, inherited as this descriptor",
                                      3, INT32_MAX));
  list.add_rare(flag("insecure", &settings.options.strategy.group.insecure,
                     "between machines, do not encrypt (the secret is still needed)"));
}

/// Where the live page is: "8080", "0.0.0.0:8080", "[::1]:8080".
Flag status(TrainOptions& train) {
  const auto assign = [&train](const std::string& value) -> Fix {
    const auto colon = value.rfind(':');
    const bool has_host = colon != std::string::npos;
    std::string host = has_host ? value.substr(0, colon) : "";
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    const auto port = parse_integer<std::uint16_t>(value.substr(has_host ? colon + 1 : 0));
    if (!port || (has_host && host.empty())) return "give PORT, 0 to 65535, or HOST:PORT.";
    train.status_port = *port;
    train.status_address = std::move(host);
    return std::nullopt;
  };
  const auto show = [&train]() -> std::string {
    if (!train.status_port) return "";
    return text(train.status_address, train.status_address.empty() ? "" : ":", *train.status_port);
  };
  return {"status",
          FlagKind::text,
          "[HOST:]PORT",
          "show the run as a live page, and /metrics, on this port of the chief's machine; 0: any "
          "that is free; with HOST it listens there, and asks for a token that the chief prints",
          assign,
          show};
}

void add_logging(std::vector<Flag>& flags, Options& options) {
  FlagGroup list(flags, "Logging");
  list.add(matching(
      at_least(0, "log-every", &options.train.log_every, "steps between log lines; 0: none")));
  list.add_rare(matching(at_least(0, "save-summary-steps", &options.train.save_summary_steps,
                                  "steps between training summaries in --model-dir; 0: none")));
  list.add_rare(at_least(0, "save-histogram-steps", &options.train.save_histogram_steps,
                         "steps between histograms of the model's parameters and gradients in "
                         "--model-dir; 0: none"));
  list.add(choice<LogLevel>("log-level", &options.log_level, "debug, info, warning or error",
                            "LEVEL",
                            {{"debug", LogLevel::debug},
                             {"info", LogLevel::info},
                             {"warning", LogLevel::warning},
                             {"error", LogLevel::error}}));
  list.add_rare(path("metrics-file", &options.train.metrics_file,
                     "write one JSON object per logged step", "FILE"));
  list.add(
      matching(at_least(0, "profile", &options.train.profile_steps,
                        "record N steps of all workers, after 3 that warm up, as profile-STEP.json "
                        "for ui.perfetto.dev; 0: none")));
  list.add(flag("json-summary", &options.train.json_summary,
                "end with one line of JSON on stdout (chief)"));
  list.add(flag("progress", &options.train.progress, "no progress bar on a terminal"));
  list.add_hidden(flag("tune-malloc", &options.tune_malloc,
                       "leave the C library's malloc as it is; by default it keeps freed memory"));
  list.add(status(options.train));
}

void add_general(std::vector<Flag>& flags, Settings& settings) {
  FlagGroup list(flags, "General");
  list.add(path("config", &settings.config_file, "read settings from a JSON file: {\"epochs\": 5}",
                "FILE"));
  list.add(
      flag("print-config", &settings.print_config, "print every value and its origin, and stop"));
  list.add(flag("help", &settings.answered, "this text"));
  list.add(flag("help-all", &settings.answered, "this text with every flag"));
  list.add(flag("version", &settings.answered, "print the versions, and stop"));
}

}  // namespace

std::vector<Flag> builtin_flags(Settings& settings) {
  std::vector<Flag> flags;
  Options& options = settings.options;
  add_mode(flags, options);
  add_training(flags, options.train);
  add_step_flags(flags, options);
  add_learning_flags(flags, options.train);
  add_data(flags, options.data, options.train);
  add_checkpoints(flags, options.train);
  add_evaluation_flags(flags, options);
  add_use_flags(flags, options.use);
  add_cluster(flags, settings);
  add_server_flags(flags, settings.servers, options.strategy.servers);
  add_exchange_flags(flags, options.strategy);
  add_limits(flags, settings);
  add_security(flags, settings);
  add_logging(flags, options);
  add_general(flags, settings);
  return flags;
}

namespace {

/// Those that exist where a program asks for them.
const std::set<std::string>& optional_flags() {
  static const std::set<std::string> names = {"learning-rate", "momentum", "weight-decay",
                                              "data-dir", "train-examples"};
  return names;
}

}  // namespace

std::vector<Flag> with_own(std::vector<Flag> builtin, std::vector<Flag> own) {
  std::set<std::string> unread = optional_flags();
  for (const Flag& flag : own) {
    if (flag.assign) continue;
    if (optional_flags().count(flag.name) == 0) {
      throw ConfigError(
          text("the program asks for a built-in flag --", flag.name,
               ", and there is none that only some programs read."),
          text("ask for one of: ", join({optional_flags().begin(), optional_flags().end()}), "."));
    }
    unread.erase(flag.name);
  }
  std::vector<Flag> all;
  for (Flag& flag : builtin) {
    if (unread.count(flag.name) == 0) all.push_back(std::move(flag));
  }
  for (Flag& flag : own) {
    if (flag.assign) all.push_back(std::move(flag));
  }
  return all;
}

std::string unread_flag_hint(const std::string& name) {
  if (optional_flags().count(name) == 0) return "";
  return text("this program does not read it; one that does has troupe::flag(\"", name,
              "\") among the flags that it gives to parse_options.");
}

std::string launcher_flag_hint(const std::string& name) {
  for (const char* launcher_flag :
       {"nnodes", "node-rank", "nproc-per-node", "nproc", "max-restarts", "rdzv-endpoint",
        "rdzv-backend", "rdzv-id", "standalone", "workers", "np", "ps", "restart-workers"}) {
    if (name == launcher_flag) {
      return "it belongs to the launcher, before the program's name (see troupe run --help); a "
             "program takes --rank, --world-size and --chief-address.";
    }
  }
  return "";
}

}  // namespace troupe::detail
