// Addresses: from the text in a cluster file to what a socket wants.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/text.h"

namespace troupe {

/// "127.0.0.1:2222", "[::1]:2222"
[[nodiscard]] inline std::string to_text(const std::string& host, unsigned port) {
  const bool bare_v6 = host.find(':') != std::string::npos;
  return bare_v6 ? text("[", host, "]:", port) : text(host, ":", port);
}
[[nodiscard]] inline std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint) {
  return to_text(endpoint.address().to_string(), endpoint.port());
}

}  // namespace troupe
