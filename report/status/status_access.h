// StatusAccess: who may read which page of the status server. Pure, so that it can be tested, and
// fuzzed, without a socket.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::detail {

enum class StatusPage { live, events, metrics, health };

/// What decides about a request; as it came, so nothing of it is to be trusted.
struct StatusRequest {
  std::string_view target;              // "/events?token=0f3a..."
  std::string_view host;                // header Host; empty: none
  std::string_view authorization = {};  // header Authorization; empty: none
};

/// One of the two is set.
struct StatusDecision {
  std::optional<StatusPage> page;
  int refusal = 0;  // HTTP's: 401 no or a wrong token, 403 another Host, 404 no such page
};

class StatusAccess {
 public:
  /// `token`: what "?token=" or "Authorization: Bearer" must say, for every page but health. Empty:
  /// none is asked for, and Host must be a name of loopback: else a page of another site could
  /// have its own name resolve to 127.0.0.1, and read what is here (DNS rebinding). With a token
  /// any Host will do, because that page does not know the token.
  explicit StatusAccess(std::string token) : token_(std::move(token)) {}

  [[nodiscard]] StatusDecision decide(const StatusRequest& request) const;

 private:
  [[nodiscard]] bool is_allowed(const StatusRequest& request) const;

  std::string token_;
};

/// 32 hexadecimal digits, which are 128 random bits.  Throws: EnvironmentError where the system has
/// none to give.
[[nodiscard]] std::string new_status_token();

}  // namespace troupe::detail
