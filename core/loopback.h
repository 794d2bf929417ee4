// Loopback: what cannot leave this machine.
#pragma once

#include <string>

namespace troupe {

/// True for 127.0.0.0/8, ::1 and the name "localhost". Any other name counts as outside, whatever
/// it resolves to today.
[[nodiscard]] bool is_loopback_host(const std::string& host);

}  // namespace troupe
