// Who listens on a TCP port of this machine, as far as /proc tells this user.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// "process 4711 (python3)", or "" when it cannot be seen (another user's, or no /proc).
[[nodiscard]] std::string describe_port_owner(std::uint16_t port);

}  // namespace troupe
