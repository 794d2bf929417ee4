// The manual pages, as troff, made from what --help prints and from the table of flags.
#pragma once

#include <string>

namespace troupe {

/// troupe(1): the tool and its verbs.
[[nodiscard]] std::string tool_manual();

/// troupe-flags(7): the flags of every training program.
[[nodiscard]] std::string flags_manual();

}  // namespace troupe
