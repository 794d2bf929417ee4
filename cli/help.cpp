#include "troupe/cli/help.h"

#include <algorithm>
#include <string_view>

#include "troupe/core/machine.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"

namespace troupe::detail {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kHelpColumn = 29;  // where the explanations begin

/// Breaks `words` at blanks so that lines end by column 80; every line begins at `indent`, the
/// first of them behind `head`.
std::string wrapped(std::string head, const std::string& words, std::size_t indent) {
  std::string out;
  std::string line = std::move(head);
  if (line.size() + 1 > indent && indent > 0) {
    out += line + "\n";
    line.clear();
  }
  line.resize(indent, ' ');
  bool first = true;
  std::size_t begin = 0;
  while (begin < words.size()) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    if (!first && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line.assign(indent, ' ');
      first = true;
    }
    line += (first ? "" : " ") + word;
    first = false;
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string flag_lines(const Flag& flag) {
  std::string head = "  --" + shown_name(flag);
  if (!flag.value_name.empty()) head += " " + flag.value_name;
  std::string words = flag.help;
  const std::string initial = flag.kind == FlagKind::toggle ? "" : flag.show();
  if (!initial.empty()) words += " [" + initial + "]";
  return wrapped(std::move(head), words, kHelpColumn);
}

/// Groups in the order of their first flag, the program's own before "General".
std::vector<std::string> group_names(const FlagTable& table) {
  std::vector<std::string> names;
  for (const Flag& flag : table.flags()) {
    if (std::find(names.begin(), names.end(), flag.group) == names.end()) {
      names.push_back(flag.group);
    }
  }
  const auto general = std::find(names.begin(), names.end(), "General");
  if (general != names.end()) std::rotate(general, general + 1, names.end());
  return names;
}

std::string group_text(const FlagTable& table, const std::string& group, FlagShown rarest) {
  std::string lines;
  for (const Flag& flag : table.flags()) {
    if (flag.group == group && flag.shown <= rarest) lines += flag_lines(flag);
  }
  return lines.empty() ? "" : "\n" + group + ":\n" + lines;
}

std::vector<std::string> example_lines(const ProgramInfo& program) {
  std::vector<std::string> lines = program.examples;
  for (std::string& line : lines) line = program.name + " " + line;
  if (!lines.empty()) return lines;
  return {program.name + " --epochs 5 --batch-size 128",
          "troupe run --workers 3 -- " + program.name + " --epochs 5",
          program.name + " --cluster cluster.json --task worker:1",
          program.name + " --config train.json --print-config"};
}

}  // namespace

std::string flags_text(const FlagTable& table, FlagShown rarest) {
  std::string out;
  for (const std::string& group : group_names(table)) out += group_text(table, group, rarest);
  return out;
}

std::string help_text(const FlagTable& table, const ProgramInfo& program, FlagShown rarest) {
  std::string out = "Usage: " + program.name + " [flags] [-- arguments of the program]\n\n";
  out += wrapped("",
                 program.purpose.empty()
                     ? "Trains, validates and tests a model on one worker or on many."
                     : program.purpose,
                 0);
  out += flags_text(table, rarest);
  out += "\n";
  out += wrapped("",
                 "Every flag can also be set by a variable (TROUPE_BATCH_SIZE=128) or in the file "
                 "of --config; a flag wins over a variable, a variable over the file.",
                 0);
  out += "\nExamples:\n";
  for (const std::string& line : example_lines(program)) out += "  " + line + "\n";
  return out;
}

std::string version_text() {
  std::string out = text("Troupe ", kVersion, "\n");
#ifdef TROUPE_LIBTORCH_VERSION
  constexpr std::string_view kPackage = TROUPE_LIBTORCH_PACKAGE;
  out += text("LibTorch headers ", TROUPE_LIBTORCH_VERSION, kPackage.empty() ? "" : ", package ",
              kPackage, "\n");
#endif
  const Machine machine = inspect_machine();
  out += text("BLAS ", name_of(machine.blas.kind), machine.blas.path.empty() ? "" : ", ",
              machine.blas.path, "\n");
  out += text("CPU ", machine.cpu_capability, ", ", machine.cores.usable, " of ",
              machine.cores.online, " cores usable\n");
  return out;
}

std::vector<RunOrigin::Setting> config_settings(const FlagTable& table, const GivenTexts& lines) {
  std::vector<RunOrigin::Setting> settings;
  for (const Flag& flag : table.flags()) {
    if (flag.group == "General" || flag.shown == FlagShown::never) continue;
    const GivenText* const line = given_for(lines, flag.name.c_str());
    const GivenText shown = line != nullptr ? *line : GivenText{flag.show(), "default"};
    settings.push_back({flag.name, shown.value.empty() ? "-" : shown.value, shown.origin});
  }
  return settings;
}

std::string print_config_text(const std::vector<RunOrigin::Setting>& settings) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const auto& [name, value, source] : settings) {
    name_width = std::max(name_width, name.size());
    value_width = std::max(value_width, value.size());
  }
  std::string out;
  for (const auto& [name, value, source] : settings) {
    out += name + std::string(name_width - name.size() + 2, ' ') + value +
           std::string(value_width - value.size() + 2, ' ') + source + "\n";
  }
  return out;
}

}  // namespace troupe::detail
