#include "troupe/report/status/status_access.h"

#include <array>
#include <boost/algorithm/string/predicate.hpp>
#include <cstddef>

#include "troupe/core/secret.h"
#include "troupe/core/sha256.h"
#include "troupe/core/span.h"

namespace troupe::detail {
namespace {

/// Of "name=value&name=value", the first value of `name`; not decoded: a token has nothing to
/// decode.
std::string_view query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name)
      return pair.substr(equals + 1);
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
  }
  return {};
}

std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";  // in any case: RFC 7235, 2.1
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  if (!boost::algorithm::iequals(scheme, kScheme)) return {};
  return authorization.substr(kScheme.size());
}

/// With any port: behind a tunnel it is another one.
bool names_loopback(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"}) {
    if (host.substr(0, name.size()) != name) continue;
    const std::string_view rest = host.substr(name.size());
    if (rest.empty()) return true;
    return rest.front() == ':' && rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  }
  return false;
}

std::optional<StatusPage> page_at(std::string_view path) {
  if (path == "/") return StatusPage::live;
  if (path == "/events") return StatusPage::events;
  if (path == "/metrics") return StatusPage::metrics;
  if (path == "/healthz") return StatusPage::health;
  return std::nullopt;
}

}  // namespace

bool StatusAccess::is_allowed(const StatusRequest& request) const {
  const auto same = [this](std::string_view given) {
    return same_bytes(as_bytes(Span<const char>(given.data(), given.size())),
                      as_bytes(Span<const char>(token_.data(), token_.size())));
  };
  const std::size_t question = request.target.find('?');
  const bool by_query = question != std::string_view::npos &&
                        same(query_value(request.target.substr(question + 1), "token"));
  return by_query || same(bearer(request.authorization));
}

StatusDecision StatusAccess::decide(const StatusRequest& request) const {
  if (token_.empty() && !names_loopback(request.host)) return {std::nullopt, 403};
  const auto page = page_at(request.target.substr(0, request.target.find('?')));
  if (!token_.empty() && page != StatusPage::health && !is_allowed(request))
    return {std::nullopt, 401};
  if (!page) return {std::nullopt, 404};
  return {page, 0};
}

std::string new_status_token() {
  std::array<std::byte, 16> bytes{};
  fill_random(Span<std::byte>(bytes.data(), bytes.size()));
  return hex_of(Span<const std::byte>(bytes.data(), bytes.size()));
}

}  // namespace troupe::detail
