#include "troupe/launcher/run/launch_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "troupe/cli/cluster/address.h"
#include "troupe/cli/flags_making.h"
#include "troupe/cli/flags_reading.h"
#include "troupe/cli/help.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr const char* kShape = "write `troupe run --workers N -- PROGRAM ARGS...`.";

/// Whether `arguments` give the flag `name`, in any spelling of it.
bool gives(const std::vector<std::string>& arguments, const std::string& name) {
  return std::any_of(arguments.begin(), arguments.end(), [&](std::string argument) {
    argument = argument.substr(0, argument.find('='));
    std::replace(argument.begin(), argument.end(), '_', '-');
    return argument == "--" + name;
  });
}

/// --max-restarts promises that nothing much is lost.
void check_recovery(const LaunchOptions& options, const Environment& environment) {
  if (options.max_restarts == 0) return;
  if (options.servers > 0)
    throw ConfigError(
        "--max-restarts and --ps are given; a group with servers outlives its workers.",
        "write --restart-workers in place of --max-restarts.");
  for (const char* name : {"model-dir", "config"})
    if (gives(options.command, name)) return;
  for (const char* name : {"TROUPE_MODEL_DIR", "TROUPE_CONFIG"})
    if (environment.count(name) > 0) return;
  throw ConfigError(
      "--max-restarts is given, but the program is given no --model-dir: it would begin anew.",
      "add --model-dir DIR to the program's arguments, or set TROUPE_MODEL_DIR.");
}

/// A group whose workers may be lost.
void check_elastic(const LaunchOptions& options, const detail::GivenTexts& given) {
  if (options.min_workers == 0) {
    if (given.count("regroup-secs") > 0)
      throw ConfigError("--regroup-secs is given without --min-workers.",
                        "add --min-workers M, or leave it out.");
    return;
  }
  if (options.servers > 0)
    throw ConfigError(
        "--min-workers and --ps are given; a group with servers outlives its workers anyway.",
        "leave --min-workers out; --restart-workers starts lost workers again.");
  if (options.node.nodes > 1) return;  // node 0 sees how many come
  if (options.min_workers > options.workers)
    throw ConfigError(text("--min-workers is ", options.min_workers, ", but there are ",
                           options.workers, " workers."),
                      "start at least as many as must be left.");
}

/// Several machines, a launcher started on each. A script for any number of them may write
/// --nodes 1.
void check_nodes(const LaunchOptions& options, const detail::GivenTexts& given,
                 const Environment& environment) {
  const NodeOptions& node = options.node;
  if (node.node >= node.nodes)
    throw ConfigError(text("--node is ", node.node, " of --nodes ", node.nodes, "."),
                      "number the nodes from 0 on.");
  if (node.nodes == 1) {
    if (!node.rendezvous.host.empty() && given.count("nodes") == 0)
      throw ConfigError("--rendezvous is given without --nodes.",
                        "add --nodes K and --node I, or leave it out.");
    return;
  }
  if (options.servers > 0)
    throw ConfigError(
        "--ps is given with several machines; `troupe run` starts servers on one only.",
        "start servers and workers by a cluster file (docs/cluster.md), or leave --ps "
        "out.");
  if (node.rendezvous.host.empty())
    throw ConfigError(
        "--nodes is given without --rendezvous.",
        "add --rendezvous HOST:PORT, where node 0 can listen and all others reach it.");
  if (options.secret_file.empty() && environment.count("TROUPE_SECRET_FILE") == 0)
    throw ConfigError("--nodes is given without a secret, by which the launchers know each other.",
                      "make one by `troupe secret > FILE`, copy it to every machine, and add "
                      "--secret-file FILE.");
}

/// Where the flags' values go that are not kept as they are given.
struct Scratch {
  std::int64_t grace_seconds = 10;
  std::int64_t start_seconds = 300;
  std::int64_t regroup_seconds = 60;
  std::string rendezvous;
};

detail::FlagTable launch_flags(LaunchOptions& options, Scratch& scratch) {
  using detail::path;
  using detail::whole;
  NodeOptions& node = options.node;
  std::vector<Flag> flags;
  detail::FlagGroup here(flags, "This machine");
  here.add(whole("workers", &options.workers, "how many workers", 1, kMaxLocalWorkers));
  here.add(whole("max-restarts", &options.max_restarts,
                 "when a worker was killed or lost, start the group again from its newest "
                 "checkpoint, up to N times",
                 0, kMaxRestarts));
  here.add(whole("min-workers", &options.min_workers,
                 "continue without lost workers while at least N remain, and replace them; PROGRAM "
                 "needs --virtual-replicas; 0: a lost worker ends the group",
                 1, kMaxLocalWorkers));
  here.add(flag("regroup-secs", &scratch.regroup_seconds,
                "with --min-workers: how long fewer wait for others, or look for machine 0",
                {0, 86'400}));
  here.add(flag("evaluator", &options.evaluator,
                "one additional process, evaluator/0, which evaluates the others' checkpoints; "
                "PROGRAM needs --mode train-and-evaluate"));
  here.add(path("log-dir", &options.log_dir,
                "also write DIR/worker-<rank>.log for every worker; former runs' logs are kept as "
                "DIR/worker-<rank>.log.<run>",
                "DIR"));
  here.add(path("secret-file", &options.secret_file,
                "hand down the secret in FILE, or in TROUPE_SECRET_FILE; unset: one drawn for this "
                "run (docs/security.md)",
                "FILE"));
  here.add(whole("threads", &options.threads,
                 "compute threads of each worker; 0: the usable cores, less one for each server, "
                 "divided by the workers",
                 1, 4096));
  here.add(flag("grace", &scratch.grace_seconds,
                "seconds from the signal to SIGKILL when the group is stopped", {0, 3600}));
  here.add(flag("prefix", &options.prefix, "leave out the [worker/1] before every line"));
  here.add(flag("progress", &options.progress, "on a terminal, show no progress below the output"));
  detail::FlagGroup servers(flags, "Parameter servers, on one machine");
  servers.add(whole("ps", &options.servers,
                    "N additional processes, ps/0 and so on; PROGRAM needs --strategy "
                    "parameter-server or auto",
                    0, kMaxLocalServers));
  servers.add(whole("restart-workers", &options.restarts,
                    "restart a lost worker, up to N times each", 0, kMaxRestarts));
  detail::FlagGroup several(flags,
                            "Several machines, this command on each (mpirun, srun and torchrun "
                            "start PROGRAM itself)");
  several.add(whole("nodes", &node.nodes, "how many machines", 1, kMaxNodes));
  several.add(whole("node", &node.node, "which of them this is", 0, kMaxNodes - 1));
  several.add(path("rendezvous", &scratch.rendezvous, "where machine 0 listens", "HOST:PORT"));
  several.add(flag("start-timeout", &scratch.start_seconds,
                   "seconds until all machines have joined", {1, 86'400}));
  return detail::FlagTable(std::move(flags));
}

}  // namespace

LaunchOptions parse_launch_options(const std::vector<std::string>& arguments,
                                   const Environment& environment) {
  LaunchOptions options;
  Scratch scratch;
  const detail::FlagTable table = launch_flags(options, scratch);
  detail::CommandLine line = detail::read_command_line(arguments, table);
  if (std::find(arguments.begin(), arguments.end(), "--") == arguments.end())
    throw ConfigError("`troupe run` needs `--` before the program to start.", kShape);
  if (line.extra.empty())
    throw ConfigError("`troupe run` was given no program after `--`.", kShape);
  if (line.given.count("workers") == 0)
    throw ConfigError("`troupe run` was not told how many workers to start.", kShape);
  detail::assign(line.given, table);
  options.grace = std::chrono::seconds(scratch.grace_seconds);
  options.node.start_timeout = std::chrono::seconds(scratch.start_seconds);
  options.regroup_limit = std::chrono::seconds(scratch.regroup_seconds);
  if (!scratch.rendezvous.empty())
    options.node.rendezvous = parse_address(scratch.rendezvous, "--rendezvous");
  options.command = std::move(line.extra);
  if (options.restarts > 0 && options.servers == 0)
    throw ConfigError("--restart-workers is given without --ps.",
                      "write --max-restarts: without parameter servers a lost worker ends the "
                      "group, which can then start again.");
  check_nodes(options, line.given, environment);
  check_elastic(options, line.given);
  check_recovery(options, environment);
  return options;
}

std::string launch_help() {
  LaunchOptions options;
  Scratch scratch;
  return text(R"(Usage: troupe run --workers N [flags] -- PROGRAM ARGS...

Starts N copies of PROGRAM as one group, on this machine or on several, and ends
with all of them. The first failure stops the others and is shown with its last
lines. With parameter servers a worker other than worker/0 may be lost: training
continues without it.
)",
              detail::flags_text(launch_flags(options, scratch), detail::FlagShown::in_help_all),
              R"(
Exit code: 0 if every process ended with 0; that of the process that failed
first (128 + number for a signal), or else of the evaluator, whose failure stops
no other process; 138 if a machine or a worker was lost; 2 for a wrong command
line; 3 if a machine is not ready; 130, 143 and 129 after Ctrl-C, SIGTERM and
SIGHUP: with --model-dir the workers save first. docs/running.md has the rest.

Examples:
  troupe run --workers 2 -- build/release/examples/mnist --epochs 3
  troupe run --workers 4 --log-dir logs -- ./my_training --batch-size 256
  troupe run --workers 3 --ps 2 -- ./my_training --max-steps 1500
  troupe run --workers 4 --max-restarts 3 -- ./my_training --model-dir run1
)");
}

}  // namespace troupe
