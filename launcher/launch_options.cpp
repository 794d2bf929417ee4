#include <algorithm>
#include <cstdint>
#include <utility>

#include "cli/flags_making.h"
#include "cli/flags_reading.h"
#include "cluster/address.h"
#include "core/error.h"
#include "core/text.h"
#include "launcher/launch.h"
#include "launcher/launch_ssh.h"

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
  if (options.max_restarts == 0 || options.node.is_agent) return;
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
  if (options.remote.hosts.empty() && options.node.nodes > 1) return;  // node 0 sees how many come
  int workers = options.workers;
  for (const HostSlots& host : options.remote.hosts) workers += host.workers;
  if (options.min_workers > workers)
    throw ConfigError(
        text("--min-workers is ", options.min_workers, ", but there are ", workers, " workers."),
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
  if (node.is_agent) return;  // the rest comes by its standard input
  if (node.rendezvous.host.empty())
    throw ConfigError(
        "--nodes is given without --rendezvous.",
        "add --rendezvous HOST:PORT, where node 0 can listen and all others reach it.");
  if (options.secret_file.empty() && environment.count("TROUPE_SECRET_FILE") == 0)
    throw ConfigError("--nodes is given without a secret, by which the launchers know each other.",
                      "make one by `troupe secret > FILE`, copy it to every machine, and add "
                      "--secret-file FILE.");
}

/// Several machines, started from here.
void check_hosts(const LaunchOptions& options, const detail::GivenTexts& given) {
  const bool has_hosts = !options.remote.hosts.empty();
  if (!has_hosts) {
    for (const char* name : {"ssh", "troupe", "export"})
      if (given.count(name) > 0)
        throw ConfigError(text("--", name, " is given without --hosts."),
                          "add --hosts NAME:WORKERS,..., or leave it out.");
    return;
  }
  for (const char* name : {"nodes", "node"})
    if (given.count(name) > 0)
      throw ConfigError(text("--", name, " and --hosts are given."),
                        "leave --nodes and --node out: each host is a node.");
  if (given.count("workers") > 0)
    throw ConfigError("--workers and --hosts are given.",
                      "write the number of workers behind each host: --hosts a:2,b:2.");
  if (options.servers > 0)
    throw ConfigError(
        "--ps and --hosts are given; `troupe run` starts servers on one machine only.",
        "start servers and workers by a cluster file (docs/cluster.md), or leave --ps "
        "out.");
}

/// Where the flags' values go that are not kept as they are given.
struct Scratch {
  std::int64_t grace_seconds = 10;
  std::int64_t start_seconds = 300;
  std::int64_t regroup_seconds = 60;
  std::string log_dir;
  bool prefix = true;
  std::string rendezvous;
  std::string hosts;
  std::string host_file;
  std::string ssh;
};

detail::FlagTable launch_flags(LaunchOptions& options, Scratch& scratch) {
  using detail::path;
  using detail::whole;
  NodeOptions& node = options.node;
  return detail::FlagTable({whole("workers", &options.workers, "", 1, kMaxLocalWorkers),
                            whole("ps", &options.servers, "", 0, kMaxLocalServers),
                            whole("restart-workers", &options.restarts, "", 0, kMaxRestarts),
                            whole("max-restarts", &options.max_restarts, "", 0, kMaxRestarts),
                            whole("min-workers", &options.min_workers, "", 1, kMaxLocalWorkers),
                            flag("regroup-secs", &scratch.regroup_seconds, "", {0, 86'400}),
                            flag("evaluator", &options.evaluator, ""),
                            path("log-dir", &scratch.log_dir, "", "DIR"),
                            whole("threads", &options.threads, "", 1, 4096),
                            flag("grace", &scratch.grace_seconds, "", {0, 3600}),
                            flag("prefix", &scratch.prefix, ""),
                            flag("progress", &options.progress, ""),
                            whole("nodes", &node.nodes, "", 1, kMaxNodes),
                            whole("node", &node.node, "", 0, kMaxNodes - 1),
                            path("rendezvous", &scratch.rendezvous, "", "HOST:PORT"),
                            path("secret-file", &options.secret_file, "", "FILE"),
                            flag("start-timeout", &scratch.start_seconds, "", {1, 86'400}),
                            flag("agent", &node.is_agent, ""),
                            path("hosts", &scratch.hosts, "", "LIST"),
                            path("hostfile", &scratch.host_file, "", "FILE"),
                            path("ssh", &scratch.ssh, "", "COMMAND"),
                            path("troupe", &options.remote.troupe, "", "PATH"),
                            detail::name_list("export", &options.remote.exports, "", {}, "")});
}

void take(LaunchOptions& options, const Scratch& scratch) {
  options.grace = std::chrono::seconds(scratch.grace_seconds);
  options.node.start_timeout = std::chrono::seconds(scratch.start_seconds);
  options.regroup_limit = std::chrono::seconds(scratch.regroup_seconds);
  options.log_dir = scratch.log_dir;
  if (!scratch.prefix) options.prefix = LaunchOptions::Prefix::none;
  if (!scratch.rendezvous.empty())
    options.node.rendezvous = parse_address(scratch.rendezvous, "--rendezvous");
  if (!scratch.hosts.empty() && !scratch.host_file.empty())
    throw ConfigError("--hosts and --hostfile are given.", "keep one of the two.");
  if (!scratch.hosts.empty()) options.remote.hosts = parse_host_list(scratch.hosts);
  if (!scratch.host_file.empty()) options.remote.hosts = read_host_file(scratch.host_file);
  if (!scratch.ssh.empty()) options.remote.ssh = split_words(scratch.ssh, "--ssh");
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
  if (line.given.count("workers") + line.given.count("hosts") + line.given.count("hostfile") == 0)
    throw ConfigError("`troupe run` was not told how many workers to start.", kShape);
  detail::assign(line.given, table);
  take(options, scratch);
  options.command = std::move(line.extra);
  if (options.restarts > 0 && options.servers == 0)
    throw ConfigError("--restart-workers is given without --ps.",
                      "write --max-restarts: without parameter servers a lost worker ends the "
                      "group, which can then start again.");
  check_hosts(options, line.given);
  if (options.remote.hosts.empty()) check_nodes(options, line.given, environment);
  check_elastic(options, line.given);
  check_recovery(options, environment);
  return options;
}

std::string launch_help() {
  return R"(Usage: troupe run --workers N [options] -- PROGRAM ARGS...
       troupe run --hosts A:2,B:2 [options] -- PROGRAM ARGS...

Starts N copies of PROGRAM as one group, on this machine or on several, and ends
with all of them. The first failure stops the others and is shown with its last
lines. With parameter servers a worker other than worker/0 may be lost: training
continues without it.

  --workers N     how many on this machine, 1 to 1024
  --max-restarts N
                  start the group again from its newest checkpoint, up to N
                  times, when a worker was killed or lost [0]
  --min-workers M a lost worker or machine ends nothing: the others go on, M at
                  least, and it is replaced; PROGRAM needs --virtual-replicas
  --regroup-secs SECS
                  how long fewer than M wait, or look for machine 0 [60]
  --evaluator     one additional process, evaluator/0, which evaluates the
                  others' checkpoints; PROGRAM needs --mode train-and-evaluate
  --log-dir DIR   also write DIR/worker-<rank>.log for every worker; former
                  runs' logs are kept as DIR/worker-<rank>.log.<run>
  --secret-file F hand down the secret in F, or in TROUPE_SECRET_FILE, rather than
                  one drawn for this run (docs/security.md)
  --threads T     compute threads of each worker [(usable cores - M) / N]
  --grace SECS    from the signal to SIGKILL when the group is stopped [10]
  --no-prefix     leave out the [worker/1] before every line
  --no-progress   on a terminal, show no progress below the output

Parameter servers, on one machine:
  --ps M          M additional parameter servers, ps/0 and so on, up to 256;
                  PROGRAM needs --strategy parameter-server or auto
  --restart-workers N
                  restart a lost worker, up to N times each [0]

Several machines by one command, over ssh (docs/cluster.md):
  --hosts LIST    hosts and their workers, A:2,B:2
  --hostfile F    the same as lines "A slots=2"
  --ssh COMMAND   ssh with options, "ssh -p 2222"
  --troupe PATH   this tool on the hosts [where it is here]
  --export A,B    variables to pass on beside TROUPE_*

Several machines by one command on each:
  --nodes K --node I --rendezvous HOST:PORT --secret-file F
                  this is machine I of K; machine 0 listens at HOST:PORT
  --start-timeout SECS
                  until all machines have joined [300]

Exit code: 0 if every process ended with 0; that of the process that failed
first (128 + number for a signal), or else of the evaluator, whose failure stops
no other process; 138 if a machine or a worker was lost; 2 for a wrong command
line; 3 if a machine is not ready; 130, 143 and 129 after Ctrl-C, SIGTERM and
SIGHUP: with --model-dir the workers save first. docs/running.md has the rest.

Examples:
  troupe run --workers 2 -- build/release/examples/mnist --epochs 3
  troupe run --workers 4 --log-dir logs -- ./my_training --batch-size 256
  troupe run --workers 3 --ps 2 -- ./my_training --max-steps 1500
  troupe run --hosts a:4,b:4 --max-restarts 3 -- ./my_training --model-dir run1
)";
}

}  // namespace troupe
