#include "net/address.h"

#include <boost/asio/ip/address.hpp>

#include "core/text.h"

namespace troupe {

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint) {
  return to_text(endpoint.address().to_string(), endpoint.port());
}

std::string to_text(const std::string& host, unsigned port) {
  const bool bare_v6 = host.find(':') != std::string::npos;
  return bare_v6 ? text("[", host, "]:", port) : text(host, ":", port);
}

}  // namespace troupe
