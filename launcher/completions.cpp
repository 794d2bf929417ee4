#include "launcher/completions.h"

#include <vector>

#include "cli/flags_builtin.h"
#include "cli/flags_table.h"
#include "core/text.h"
#include "launcher/help_options.h"
#include "launcher/starters.h"
#include "launcher/verbs.h"

namespace troupe {
namespace {

using Choices = std::vector<HelpOption>;

Choices program_options() {
  detail::Settings settings;
  Choices options;
  for (const Flag& flag : detail::builtin_flags(settings))
    if (flag.shown != Flag::Shown::never)
      options.push_back(
          {"--" + detail::shown_name(flag), flag.kind != Flag::Kind::toggle, flag.help});
  return options;
}

std::string names_of(const Choices& options, bool with_value_only = false) {
  std::vector<std::string> names;
  for (const HelpOption& option : options)
    if (option.has_value || !with_value_only) names.push_back(option.name);
  return join(names, with_value_only ? "|" : " ");
}

std::string kind_names() {
  std::vector<std::string> names;
  for (const Starter& starter : starters()) names.emplace_back(starter.kind);
  return join(names, " ");
}

std::string verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  return join(names, " ");
}

/// 'name:words' for zsh's _describe, one a line.
std::string described(const Choices& options) {
  std::string lines;
  for (const HelpOption& option : options) {
    lines += "    '" + option.name + ":";
    for (const char c : option.words) lines += c == '\'' ? std::string("'\\''") : std::string(1, c);
    lines += "'\n";
  }
  return lines;
}

/// Cases of a shell's `case $verb`: what options each verb has, and which take a value.
std::string bash_cases() {
  std::string cases;
  for (const Verb& verb : verbs()) {
    const Choices options = help_options(verb.help());
    const std::string valued = names_of(options, true);
    cases +=
        text("        ", verb.name, ")\n            words=\"", names_of(options), " --help\"\n");
    if (!valued.empty())
      cases += text("            [[ $before =~ ^(", valued, ")$ ]] && takes_value=1\n");
    cases += "            ;;\n";
  }
  return cases;
}

}  // namespace

std::string bash_completion() {
  return text(R"(# bash completion for troupe                             -*- shell-script -*-
_troupe()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
    local words= takes_value= i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W ")",
              verb_names(), R"( help version" -- "$current")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if ((COMP_CWORD == i + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
        elif [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W ")",
              names_of(program_options()), R"(" -- "$current")
        fi
        return
    done
    case $verb in
)",
              bash_cases(), R"(        help)
            mapfile -t COMPREPLY < <(compgen -W ")",
              verb_names(), R"(" -- "$current")
            return
            ;;
    esac
    if [[ $verb == new && $before == --from ]]; then
        mapfile -t COMPREPLY < <(compgen -W ")",
              kind_names(), R"(" -- "$current")
    elif [[ ! $takes_value && ($current == -* || $verb == run) ]]; then
        [[ $verb != run ]] || words+=" --"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
}
complete -o default -F _troupe troupe
)");
}

std::string zsh_completion() {
  Choices listed;
  std::string cases;
  for (const Verb& verb : verbs()) {
    listed.push_back({verb.name, false, verb.summary});
    cases += text("  ", verb.name, ")\n  flags=(\n", described(help_options(verb.help())),
                  "    '--help:this verb'\n  ) ;;\n");
  }
  return text(R"(#compdef troupe
local -a verbs flags
local -i separator=${words[(i)--]}
verbs=(
)",
              described(listed), R"(    'help:what a verb does'
    'version:the version'
)
if (( CURRENT == 2 )); then
  _describe verb verbs
  return
fi
if (( CURRENT > separator )); then
  if (( CURRENT == separator + 1 )); then
    _command_names -e
    _files
    return
  fi
  flags=(
)",
              described(program_options()), R"(  )
  [[ $PREFIX == -* ]] && _describe flag flags || _files
  return
fi
case $words[2] in
)",
              cases, R"(  help) _describe verb verbs; return ;;
esac
if [[ $words[2] == new && $words[CURRENT-1] == --from ]]; then
  compadd )",
              kind_names(), R"(
elif [[ $PREFIX == -* || ( $words[2] == run && $words[CURRENT-1] != --* ) ]]; then
  _describe flag flags
else
  _files
fi
)");
}

}  // namespace troupe
