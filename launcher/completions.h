// What bash and zsh complete behind `troupe`: verbs, their options, and behind `--` the program
// with the flags that every training program has.
#pragma once

#include <string>

namespace troupe {

[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();

}  // namespace troupe
