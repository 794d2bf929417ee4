#include "launcher/manual_pages.h"

#include <algorithm>
#include <vector>

#include "cli/flags_builtin.h"
#include "cli/flags_table.h"
#include "core/text.h"
#include "core/version.h"
#include "launcher/verbs.h"

namespace troupe {
namespace {

/// `plain` as troff prints it again: no character is a request or another kind of dash.
std::string troff(const std::string& plain) {
  std::string out;
  bool at_start = true;
  for (const char c : plain) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\(rs";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    at_start = c == '\n';
  }
  return out;
}

std::string head_of_page(const char* name, int section, const char* purpose) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text(".TH ", troff(upper), " ", section, " \"\" \"Troupe ", kVersion, "\" \"Troupe\"\n",
              ".SH NAME\n", troff(name), " \\- ", troff(purpose), "\n");
}

std::string verbatim(const std::string& lines) { return text(".nf\n", troff(lines), ".fi\n"); }

std::string flag_entry(const Flag& flag) {
  std::string words = flag.help;
  for (const std::string& alias : flag.aliases) words += " (also --" + alias + ")";
  const std::string initial = flag.kind == Flag::Kind::toggle ? "" : flag.show();
  if (!initial.empty()) words += " [" + initial + "]";
  return text(".TP\n.B ", troff("--" + detail::shown_name(flag)),
              flag.value_name.empty() ? "" : " \\fI" + troff(flag.value_name) + "\\fP", "\n",
              troff(words), "\n");
}

}  // namespace

std::string tool_manual() {
  std::string page = head_of_page("troupe", 1, "write, start and look after training programs");
  page += ".SH SYNOPSIS\n.B troupe\n.I VERB\n[options]\n.SH DESCRIPTION\n" + verbatim(tool_help());
  page += ".SH VERBS\n";
  for (const Verb& verb : verbs())
    page += text(".SS troupe ", verb.name, "\n", verbatim(verb.help()));
  return page + ".SH SEE ALSO\n.BR troupe\\-flags (7)\n";
}

std::string flags_manual() {
  detail::Settings settings;
  const std::vector<Flag> flags = detail::builtin_flags(settings);
  std::string page =
      head_of_page("troupe-flags", 7, "flags that every training program with Troupe has");
  page +=
      ".SH DESCRIPTION\nEvery flag can also be set by a variable (TROUPE_BATCH_SIZE=128) or in the "
      "file of \\-\\-config; a flag wins over a variable, a variable over the file. Defaults stand "
      "in brackets; a program may have others, and flags of its own: its \\-\\-help shows them.\n";
  std::string group;
  for (const Flag& flag : flags) {
    if (flag.shown == Flag::Shown::never) continue;
    if (flag.group != group) page += text(".SH ", troff(group = flag.group), "\n");
    page += flag_entry(flag);
  }
  return page + ".SH SEE ALSO\n.BR troupe (1)\n";
}

}  // namespace troupe
