#include "troupe/distributed/net/address.h"

#include "troupe/core/text.h"

namespace troupe {

std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint) {
  return to_text(endpoint.address().to_string(), endpoint.port());
}

std::string to_text(const std::string& host, unsigned port) {
  const bool bare_v6 = host.find(':') != std::string::npos;
  return bare_v6 ? text("[", host, "]:", port) : text(host, ":", port);
}

}  // namespace troupe
