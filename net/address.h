// Addresses: from the text in a cluster file to what a socket wants.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace troupe {

/// True for 127.0.0.0/8, ::1 and the name "localhost": what cannot leave this machine. Any other
/// name counts as outside, whatever it resolves to today.
[[nodiscard]] bool is_loopback_host(const std::string& host);

/// "127.0.0.1:2222", "[::1]:2222"
[[nodiscard]] std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint);
[[nodiscard]] std::string to_text(const std::string& host, unsigned port);

}  // namespace troupe
