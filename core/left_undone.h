// What a destructor finds undone and cannot throw: a program that left something undone has failed,
// also where its main() returns 0.
#pragma once

#include <string>

namespace troupe::detail {

/// Remembers `what` for run_main, which prints it and ends with kExitFailed. The first one stays.
void leave_undone(const std::string& what) noexcept;
/// What was left undone since the last call; empty: nothing.
[[nodiscard]] std::string take_left_undone();

}  // namespace troupe::detail
