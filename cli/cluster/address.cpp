#include "troupe/cli/cluster/address.h"

#include <algorithm>
#include <string_view>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr std::size_t kLongestHost = 253;  // RFC 1035, 2.3.4: 255 octets on the wire

[[noreturn]] void refuse_address(const std::string& address, const std::string& where,
                                 const char* why) {
  throw ConfigError(text(where, " is \"", address.substr(0, 300), "\": ", why, "."),
                    "write host:port, for example worker-0.example:2222 or [fd00::1]:2222.");
}

std::uint16_t parse_port(std::string_view digits, const std::string& address,
                         const std::string& where) {
  const auto port = parse_integer<std::int64_t>(digits);
  if (!port) refuse_address(address, where, "its port is not a number");
  if (*port < 1 || *port > 65535) refuse_address(address, where, "its port is not from 1 to 65535");
  return static_cast<std::uint16_t>(*port);
}

void check_name(const std::string& host, const std::string& address, const std::string& where) {
  if (host.empty()) refuse_address(address, where, "it names no host");
  if (host.size() > kLongestHost) refuse_address(address, where, "its host name is too long");
  if (!std::all_of(host.begin(), host.end(), is_name_character))
    refuse_address(address, where, "its host has characters that no host name has");
}

Endpoint parse_bracketed(const std::string& address, const std::string& where) {
  const auto close = address.find(']');
  if (close == std::string::npos) refuse_address(address, where, "its [ is never closed");
  const std::string host = address.substr(1, close - 1);
  // Digits, colons, a v4 tail and a zone ("fe80::1%eth0"); the resolver judges the rest.
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
    return is_name_character(c) || c == ':' || c == '%';
  });
  if (!plain || host.size() > kLongestHost || std::count(host.begin(), host.end(), ':') < 2) {
    refuse_address(address, where, "what stands in [] is not a v6 address");
  }
  const std::string rest = address.substr(close + 1);
  if (rest.empty()) return {host, kDefaultPort};
  if (rest[0] != ':') refuse_address(address, where, "after ] only :port may follow");
  return {host, parse_port(std::string_view(rest).substr(1), address, where)};
}

}  // namespace

Endpoint parse_address(const std::string& address, const std::string& where) {
  if (address.empty()) refuse_address(address, where, "it is empty");
  if (address[0] == '[') return parse_bracketed(address, where);
  const auto colon = address.find(':');
  if (colon == std::string::npos) {
    check_name(address, address, where);
    return {address, kDefaultPort};
  }
  if (address.find(':', colon + 1) != std::string::npos) {
    refuse_address(address, where, "it has more than one colon, and a v6 address needs []");
  }
  const std::string host = address.substr(0, colon);
  check_name(host, address, where);
  return {host, parse_port(std::string_view(address).substr(colon + 1), address, where)};
}

std::string address_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? text('[', endpoint.host, "]:", endpoint.port)
            : text(endpoint.host, ':', endpoint.port);
}

}  // namespace troupe
