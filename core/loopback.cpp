#include "troupe/core/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace troupe {

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  if (host.find('\0') != std::string::npos) return false;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace troupe
