#include <algorithm>
#include <cstdint>
#include <utility>

#include "cli/flags_making.h"
#include "cli/flags_reading.h"
#include "core/error.h"
#include "launcher/launch.h"

namespace troupe {
namespace {

constexpr const char* kShape = "write `troupe run --workers N -- PROGRAM ARGS...`.";

}  // namespace

LaunchOptions parse_launch_options(const std::vector<std::string>& arguments) {
  LaunchOptions options;
  std::int64_t grace_seconds = 10;
  std::string log_dir;
  bool prefix = true;
  const detail::FlagTable table(
      {detail::whole("workers", &options.workers, "", 1, kMaxLocalWorkers),
       detail::whole("ps", &options.servers, "", 0, kMaxLocalServers),
       detail::whole("restart-workers", &options.restarts, "", 0, kMaxRestarts),
       flag("evaluator", &options.evaluator, ""), detail::path("log-dir", &log_dir, "", "DIR"),
       detail::whole("threads", &options.threads, "", 1, 4096),
       flag("grace", &grace_seconds, "", {0, 3600}), flag("prefix", &prefix, "")});
  detail::CommandLine line = detail::read_command_line(arguments, table);
  if (std::find(arguments.begin(), arguments.end(), "--") == arguments.end())
    throw ConfigError("`troupe run` needs `--` before the program to start.", kShape);
  if (line.extra.empty())
    throw ConfigError("`troupe run` was given no program after `--`.", kShape);
  if (line.given.count("workers") == 0)
    throw ConfigError("`troupe run` was not told how many workers to start.", kShape);
  detail::assign(line.given, table);
  if (options.restarts > 0 && options.servers == 0)
    throw ConfigError("--restart-workers is given without --ps.",
                      "leave it out: without parameter servers a lost worker ends the group.");
  options.command = std::move(line.extra);
  options.grace = std::chrono::seconds(grace_seconds);
  options.log_dir = log_dir;
  if (!prefix) options.prefix = LaunchOptions::Prefix::none;
  return options;
}

std::string launch_help() {
  return R"(Usage: troupe run --workers N [options] -- PROGRAM ARGS...

Starts N copies of PROGRAM on this machine as one group and ends with all of
them. The first failure stops the others and is shown with its last lines.
With parameter servers a worker other than worker/0 may be lost: training goes
on without it.

  --workers N     how many, 1 to 1024
  --ps M          M parameter servers more, ps/0 and so on, up to 256; PROGRAM
                  needs --strategy parameter-server or auto
  --restart-workers N
                  with --ps: start a lost worker again, up to N times [0]
  --evaluator     one process more, evaluator/0, which evaluates the checkpoints
                  of the others; PROGRAM needs --mode train-and-evaluate
  --log-dir DIR   also write DIR/worker-<rank>.log for every worker; former
                  runs' logs are kept as DIR/worker-<rank>.log.<run>
  --threads T     compute threads of each worker [(usable cores - M) / N]
  --grace SECS    from the signal to SIGKILL when the group is stopped [10]
  --no-prefix     leave out the [worker/1] before every line

Exit code: 0 if every process ended with 0; that of the process that failed
first (128 + number for a signal), or else of the evaluator, whose failure stops
nobody; 2 for a wrong command line; 3 if this machine is not ready; 130, 143
and 129 after Ctrl-C, SIGTERM and SIGHUP: with --model-dir the workers save
first. docs/running.md has the rest.

Examples:
  troupe run --workers 2 -- build/release/examples/mnist --epochs 3
  troupe run --workers 4 --log-dir logs -- ./my_training --batch-size 256
  troupe run --workers 3 --ps 2 -- ./my_training --max-steps 1500
)";
}

}  // namespace troupe
