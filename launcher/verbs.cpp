#include "troupe/launcher/verbs.h"

#include <filesystem>

#include "troupe/cli/flags_reading.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"
#include "troupe/launcher/doctor.h"
#include "troupe/launcher/launch.h"
#include "troupe/launcher/new_project.h"
#include "troupe/launcher/run/launch_secret.h"
#include "troupe/launcher/write_report.h"

namespace troupe {
namespace {

using Words = std::vector<std::string>;

int print(const std::string& what) {
  (void)detail::print_text(what);
  return 0;
}

int run_new(const Words& arguments) {
  const NewProject project = parse_new_project(arguments);
  write_project(project);
  const auto tool = std::filesystem::read_symlink("/proc/self/exe");
  return print(next_commands(project, package_option(tool, process_environment())));
}

int run_group(const Words& arguments) {
  return launch(parse_launch_options(arguments, process_environment()));
}

int run_doctor(const Words& arguments) {
  bool json = false;
  const detail::FlagTable table({flag("json", &json, "")});
  assign(read_command_line(arguments, table).given, table);
  const Diagnosis diagnosis = diagnose();
  (void)detail::print_text(json ? to_json(diagnosis) : to_text(diagnosis));
  return diagnosis.ready() ? 0 : kExitEnvironment;
}

std::string doctor_help() {
  return R"(Usage: troupe doctor [--json]

Prints what a training process finds on this machine and what to do about what
is wrong. Exit code: 0 if training can run, 3 if it cannot.

  --json    one JSON object on one line instead
)";
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : verbs())
    if (name == verb.name) return &verb;
  return nullptr;
}

int print_help(const Words& arguments) {
  const Verb* verb = arguments.empty() ? nullptr : find_verb(arguments[0]);
  return print(verb == nullptr ? tool_help() : verb->help());
}

/// Whether a verb is asked for its help; what follows `--` belongs to somebody else.
bool asks_for_help(const Words& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

[[noreturn]] void refuse_verb(const std::string& name) {
  if (name == "digits")
    throw ConfigError("troupe digits has moved to the program examples/digits.",
                      "run build/release/examples/digits --out DIR.");
  Words known = {"help", "version"};
  for (const Verb& verb : verbs()) known.emplace_back(verb.name);
  const std::string near = detail::nearest_name(name, known);
  throw ConfigError(text("troupe has no verb \"", name, "\"."),
                    near.empty() ? "`troupe help` lists them." : text("did you mean ", near, "?"));
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> all = {
      {"new", "write the folder of a training program, ready to build", new_project_help, run_new},
      {"run", "start the workers of a program, on this machine or on several", launch_help,
       run_group},
      {"report", "write one HTML file that shows a run, or compares several", report_help,
       write_report},
      {"secret", "make the secret of a job on several machines", secret_help, make_secret},
      {"doctor", "say what this machine is ready for", doctor_help, run_doctor},
  };
  return all;
}

std::string tool_help() {
  constexpr std::size_t kWidth = 10;
  std::string out = "Usage: troupe VERB [options]\n\n";
  const auto line = [&](std::string name, const char* summary) {
    name.resize(kWidth, ' ');
    out += text("  ", name, summary, "\n");
  };
  for (const Verb& verb : verbs()) line(verb.name, verb.summary);
  line("help", "this text; `troupe help run`: a verb's own");
  line("version", "Troupe's version");
  return out +
         "\nExamples:\n"
         "  troupe new my_training\n"
         "  troupe run --workers 2 -- build/release/examples/mnist --epochs 3\n"
         "\nDocumentation: docs/ of the sources, PREFIX/share/doc/troupe/docs of an "
         "installation.\n";
}

int run_tool(const Words& words) {
  if (words.empty()) {
    throw ConfigError("troupe was not told what to do.",
                      "write `troupe run --workers N -- PROGRAM`, or `troupe help`.");
  }
  const std::string& name = words[0];
  const Words arguments(words.begin() + 1, words.end());
  if (name == "help" || name == "--help" || name == "-h") return print_help(arguments);
  if (name == "version" || name == "--version") return print(text("troupe ", kVersion, "\n"));
  const Verb* verb = find_verb(name);
  if (verb == nullptr) refuse_verb(name);
  return asks_for_help(arguments) ? print_help({name}) : verb->run(arguments);
}

}  // namespace troupe
