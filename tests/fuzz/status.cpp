// Who may read a page of the status server: what a request says, held against the rule by other
// means. Kind 0 is loopback, kind 1 has a token.
#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/core/text.h"
#include "troupe/report/status/status_access.h"

namespace troupe::fuzz::status_target {
namespace {

using detail::StatusAccess;
using detail::StatusPage;

const std::string kToken = "00112233445566778899aabbccddeeff";

std::string seed(bool token, const std::string& target, const std::string& host,
                 const std::string& authorization = "") {
  return text(token ? '1' : '0', target, '\n', host, '\n', authorization);
}

}  // namespace

std::vector<std::string> seeds() {
  return {seed(false, "/", "localhost:8080"), seed(false, "/metrics?x", "[::1]"),
          seed(true, "/events?a=b&token=" + kToken, "x"), seed(true, "/healthz", ""),
          seed(true, "/metrics", "x", "Bearer " + kToken)};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const bool has_token = (input[0] & 1) != 0;
  const std::vector<std::string> parts = split(std::string(input.substr(1)), '\n');
  if (parts.size() != 3) return false;
  const auto decision =
      StatusAccess(has_token ? kToken : "").decide({parts[0], parts[1], parts[2]});
  FUZZ_REQUIRE(decision.page.has_value() == (decision.refusal == 0));
  if (!decision.page) {
    FUZZ_REQUIRE(decision.refusal == 401 || decision.refusal == 403 || decision.refusal == 404);
    return false;
  }
  if (!has_token) {
    FUZZ_REQUIRE(parts[1].find("localhost") == 0 || parts[1].find("127.0.0.1") == 0 ||
                 parts[1].find("[::1]") == 0);
    FUZZ_REQUIRE(parts[1].find_first_of("/@") == std::string::npos);
  } else if (*decision.page != StatusPage::health) {
    FUZZ_REQUIRE(parts[0].find(kToken) != std::string::npos ||
                 (parts[2].size() == 7 + kToken.size() && parts[2].substr(7) == kToken));
  }
  return true;
}

const Registration registered({"status", seeds, run});

}  // namespace troupe::fuzz::status_target
