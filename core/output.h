// What a program was asked to print on stdout, which others read: its messages go to stderr, by
// core/log.h.
#pragma once

#include <string>

namespace troupe::detail {

/// A reader that has closed the pipe has what it wanted.
enum class Reader { listens, gone };

/// Writes `what` to stdout at once. Returns whether anybody reads on.
/// Throws: EnvironmentError where the text is lost otherwise.
Reader print_text(const std::string& what);

}  // namespace troupe::detail
