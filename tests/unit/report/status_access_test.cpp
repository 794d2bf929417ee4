#include "troupe/report/status/status_access.h"

#include <set>

#include "tests/support/test_prelude.h"

namespace status_access_test {

using troupe::detail::new_status_token;
using troupe::detail::StatusAccess;
using troupe::detail::StatusPage;

namespace {

const std::string kToken = "00112233445566778899aabbccddeeff";

}  // namespace

TEST_SUITE("status") {
  TEST_CASE("status access: on loopback the Host must be one of loopback") {
    const StatusAccess access("");
    for (const char* host : {"localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]",
                             "[::1]:65535", "localhost:"}) {
      CAPTURE(host);
      CHECK(access.decide({"/metrics", host}).page == StatusPage::metrics);
    }
    for (const char* host : {"", "evil.example", "evil.example:8080", "localhost.evil.example",
                             "127.0.0.1.evil.example", "127.0.0.10", "localhost:8080.evil.example",
                             "localhost@evil.example", "::1", "Localhost "}) {
      CAPTURE(host);
      for (const char* target : {"/", "/events", "/metrics", "/healthz", "/none"}) {
        CHECK(access.decide({target, host}).refusal == 403);
        CHECK_FALSE(access.decide({target, host}).page);
      }
    }
  }

  TEST_CASE("status access: pages by their exact paths, whatever the query") {
    const StatusAccess access("");
    const auto page = [&](const char* target) { return access.decide({target, "localhost"}).page; };
    CHECK(page("/") == StatusPage::live);
    CHECK(page("/?x=y") == StatusPage::live);
    CHECK(page("/events?") == StatusPage::events);
    CHECK(page("/healthz?token=") == StatusPage::health);
    for (const char* target : {"", "*", "//", "/metrics/", "/Metrics", "/../metrics", "/run.jsonl",
                               "http://localhost/metrics", "/favicon.ico"}) {
      CAPTURE(target);
      CHECK(access.decide({target, "localhost"}).refusal == 404);
    }
  }

  TEST_CASE("status access: with a token every page but health needs it, and any Host will do") {
    const StatusAccess access(kToken);
    const auto refusal = [&](const std::string& target, const std::string& authorization = "") {
      return access.decide({target, "node7.cluster:8080", authorization}).refusal;
    };
    for (const std::string page : {"/", "/events", "/metrics"}) {
      CAPTURE(page);
      for (const std::string scheme : {"Bearer ", "bearer ", "BEARER "})
        CHECK(refusal(page, scheme + kToken) == 0);
      CHECK(refusal(page, "Basic " + kToken) == 401);
      CHECK(refusal(page + "?token=" + kToken) == 0);
      CHECK(refusal(page + "?a=b&token=" + kToken + "&c") == 0);
      CHECK(refusal(page, "Bearer " + kToken) == 0);
      CHECK(refusal(page) == 401);
      CHECK(refusal(page + "?token=") == 401);
      CHECK(refusal(page + "?token=" + kToken + "0") == 401);
      CHECK(refusal(page + "?token=" + kToken.substr(1)) == 401);
      CHECK(refusal(page + "?token=" + std::string(32, '0')) == 401);
      CHECK(refusal(page + "?atoken=" + kToken) == 401);
      CHECK(refusal(page + "?token=x&token=" + kToken) == 401);  // the first counts
      CHECK(refusal(page + "?" + kToken) == 401);
      CHECK(refusal(page, kToken) == 401);
      CHECK(refusal(page, "Basic " + kToken) == 401);
      CHECK(refusal(page, "Bearer ") == 401);
    }
    CHECK(refusal("/healthz") == 0);
    CHECK(refusal("/none") == 401);  // what is there is nobody's business
    CHECK(refusal("/none?token=" + kToken) == 404);
  }

  TEST_CASE("status access: tokens are long, and differ") {
    std::set<std::string> tokens;
    for (int i = 0; i < 100; ++i) tokens.insert(new_status_token());
    CHECK(tokens.size() == 100);
    for (const std::string& token : tokens) {
      CHECK(token.size() == 32);
      CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    }
  }
}

}  // namespace status_access_test
