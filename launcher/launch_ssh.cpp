#include "launcher/launch_ssh.h"

#include <cctype>

#include "core/error.h"
#include "core/text.h"

namespace troupe {

std::string quote_for_shell(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::vector<std::string> split_words(const std::string& command, const std::string& flag) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == 0 && std::isspace(static_cast<unsigned char>(c)) != 0) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      words.back() += command[++i];
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0)
    throw ConfigError(text(flag, " \"", command, "\" has a quote without its end."),
                      "end it, or leave it out.");
  if (words.empty() || words[0].empty())
    throw ConfigError(text(flag, " names no program."), text("write ", flag, " \"ssh -p 2222\"."));
  return words;
}

std::string remote_command(const std::string& directory, const std::string& program,
                           const std::vector<std::string>& arguments) {
  // A name without a slash is looked up in that machine's PATH.
  std::string script =
      text("cd -- ", quote_for_shell(directory), " 2>/dev/null || exit ", kNoDirectory,
           "; command -v ", quote_for_shell(program), " >/dev/null || exit ", kNoProgram, "; exec ",
           quote_for_shell(program));
  for (const std::string& argument : arguments) script += " " + quote_for_shell(argument);
  return "exec sh -c " + quote_for_shell(script);
}

std::vector<std::string> ssh_command(const std::vector<std::string>& ssh, const std::string& host,
                                     const std::string& command) {
  std::vector<std::string> words = ssh;
  // The first setting of a name counts for ssh: those of the user come before ours.
  for (const char* word : {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                           "ServerAliveInterval=1", "-o", "ServerAliveCountMax=5"})
    words.emplace_back(word);
  words.push_back(host);
  words.push_back(command);
  return words;
}

}  // namespace troupe
