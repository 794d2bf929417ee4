// Address: "host:port" as users, cluster files and launchers write it.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/core/options/cluster.h"

namespace troupe {

inline constexpr std::uint16_t kDefaultPort = 2222;  // where an address names none

/// Reads "host:port", "host", "[v6]:port" or "[v6]". `where` says where the text stands ("--chief-
/// address", "TF_CONFIG.cluster.worker[1]"), for the message.
/// Throws: ConfigError for an empty host, blanks, port 0 or above 65535, a v6 address without [].
[[nodiscard]] Endpoint parse_address(const std::string& address, const std::string& where);

/// "host:port", with brackets around a v6 address.
[[nodiscard]] std::string address_text(const Endpoint& endpoint);

}  // namespace troupe
