// What is said to ssh: which command a remote shell is to run, in words that reach the program as
// they are.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// `word` as a POSIX shell reads it back, whatever is in it.
[[nodiscard]] std::string quote_for_shell(const std::string& word);

/// The words of a command as a user writes it: blanks separate them, ' and " keep them, \ keeps the
/// next character. Throws: ConfigError naming `flag` for a quote without its end, or no word.
[[nodiscard]] std::vector<std::string> split_words(const std::string& command,
                                                   const std::string& flag);

/// For the remote user's shell, whichever it is: `program` with `arguments`, in `directory`. Ends
/// with kNoDirectory or kNoProgram, without a word, where one of the two is not there.
[[nodiscard]] std::string remote_command(const std::string& directory, const std::string& program,
                                         const std::vector<std::string>& arguments);
inline constexpr int kNoDirectory = 91;  // beyond what programs and shells use
inline constexpr int kNoProgram = 92;

/// The command that runs `command` on `host` by `ssh`: quiet, without questions, and at an end
/// within seconds when the other machine cannot be reached any longer.
[[nodiscard]] std::vector<std::string> ssh_command(const std::vector<std::string>& ssh,
                                                   const std::string& host,
                                                   const std::string& command);

}  // namespace troupe
