// troupe: starts groups of workers, says what a machine is ready for.
// Free of LibTorch: it starts in milliseconds and runs where LibTorch does not.
//
//   troupe run --workers 2 -- build/release/examples/mnist --epochs 3
#include <cstdio>
#include <string>
#include <vector>

#include "cli/flags_reading.h"
#include "cli/run_main.h"
#include "core/error.h"
#include "core/text.h"
#include "core/version.h"
#include "launcher/doctor.h"
#include "launcher/launch.h"
#include "launcher/launch_secret.h"

namespace {

using troupe::ConfigError;
using troupe::text;
using Words = std::vector<std::string>;

constexpr const char* kHelp = R"(Usage: troupe VERB [options]

  run       start the workers of a program, on this machine or on several
  secret    make the secret of a job on several machines
  doctor    say what this machine is ready for
  help      this text; `troupe help run`: a verb's own
  version   Troupe's version

Example: troupe run --workers 2 -- build/release/examples/mnist --epochs 3
)";

constexpr const char* kDoctorHelp = R"(Usage: troupe doctor [--json]

Prints what a training process finds on this machine and what to do about what
is wrong. Exit code: 0 if training can run, 3 if it cannot.

  --json    one JSON object on one line instead
)";

int print(const std::string& help) {
  return std::fputs(help.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? troupe::kExitFailed : 0;
}

int print_help(const Words& arguments) {
  if (arguments.empty()) return print(kHelp);
  const std::string& verb = arguments[0];
  if (verb == "run") return print(troupe::launch_help());
  if (verb == "doctor") return print(kDoctorHelp);
  if (verb == "secret") return print(troupe::secret_help());
  return print(kHelp);
}

int run_doctor(const Words& arguments) {
  bool json = false;
  const troupe::detail::FlagTable table({troupe::flag("json", &json, "")});
  assign(read_command_line(arguments, table).given, table);
  const troupe::Diagnosis diagnosis = troupe::diagnose();
  const int printed = print(json ? troupe::to_json(diagnosis) : troupe::to_text(diagnosis));
  return diagnosis.ready() ? printed : troupe::kExitEnvironment;
}

/// Whether a verb is asked for its help; what follows `--` belongs to somebody else.
bool asks_for_help(const Words& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

int run_tool(const Words& words) {
  if (words.empty()) {
    throw ConfigError("troupe was not told what to do.",
                      "write `troupe run --workers N -- PROGRAM`, or `troupe help`.");
  }
  const std::string& verb = words[0];
  const Words arguments(words.begin() + 1, words.end());
  if (verb == "help" || verb == "--help" || verb == "-h") return print_help(arguments);
  if (verb == "version" || verb == "--version")
    return print(text("troupe ", troupe::kVersion, "\n"));
  if (verb == "run" || verb == "doctor" || verb == "secret") {
    if (asks_for_help(arguments)) return print_help({verb});
    if (verb == "run")
      return troupe::launch(troupe::parse_launch_options(arguments, troupe::process_environment()));
    if (verb == "secret") return troupe::make_secret(arguments);
    return run_doctor(arguments);
  }
  if (verb == "digits") {
    throw ConfigError("troupe digits has moved to the program examples/digits.",
                      "run build/release/examples/digits --out DIR.");
  }
  const std::string near =
      troupe::detail::nearest_name(verb, {"run", "secret", "doctor", "help", "version"});
  throw ConfigError(text("troupe has no verb \"", verb, "\"."),
                    near.empty() ? "`troupe help` lists them." : text("did you mean ", near, "?"));
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] { return run_tool(Words(argv + (argc > 0 ? 1 : 0), argv + argc)); });
}
