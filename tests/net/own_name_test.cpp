// A process whose own name is not published yet, or still stands for another machine. This program
// has its own getaddrinfo, which answers for names that end in ".late.test".
#include <dlfcn.h>
#include <netdb.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/worker_group.h"

namespace own_name_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

// What the next look-ups find: an address, or nothing. The last answer stays.
std::vector<const char*> answers;
int look_ups = 0;

const char* next_answer() {
  const auto last = answers.size() - 1;
  return answers[std::min(static_cast<std::size_t>(look_ups++), last)];
}

bool is_late(const char* name) {
  const std::string host = name == nullptr ? "" : name;
  const std::string suffix = ".late.test";
  return host.size() > suffix.size() &&
         host.compare(host.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// Listens at a name for which `found` is found, look-up by look-up.
std::string listen_at_late_name(std::vector<const char*> found,
                                std::chrono::milliseconds patience) {
  answers = std::move(found);
  look_ups = 0;
  boost::asio::io_context context;
  const Acceptor acceptor(context, "pod-0.late.test", 0, patience);
  return acceptor.endpoint().address().to_string();
}

}  // namespace

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (!is_late(name)) return real(name, service, hints, found);
  const char* const answer = next_answer();
  return answer == nullptr ? EAI_NONAME : real(answer, service, hints, found);
}

TEST_SUITE("net") {
  TEST_CASE("own name: it is looked up until it is published, and the log says so") {
    const CapturedLog log;
    CHECK(listen_at_late_name({nullptr, nullptr, "127.0.0.1"}, std::chrono::seconds(20)) ==
          "127.0.0.1");
    CHECK(look_ups == 3);
    CHECK(log.has("waiting: the address pod-0.late.test:0 of this process cannot be resolved: "));
    CHECK(log.has("(0 s of 20 s)"));
  }

  // 192.0.2.0/24 is reserved for documentation (RFC 5737).
  TEST_CASE("own name: one that still stands for its predecessor's address is looked up again") {
    const CapturedLog log;
    CHECK(listen_at_late_name({"192.0.2.1", "127.0.0.1"}, std::chrono::seconds(20)) == "127.0.0.1");
    CHECK(log.has("pod-0.late.test:0 of this process is 192.0.2.1, which does not belong to"));
  }

  TEST_CASE("own name: one that is never published may be tried again later") {
    const CapturedLog log;
    Cluster cluster;
    cluster.members = {{"worker/0", Endpoint{"pod-0.late.test", 2222}}, {"worker/1", std::nullopt}};
    GroupOptions options = test_options();
    options.start_timeout = std::chrono::milliseconds(600);
    answers = {nullptr};
    look_ups = 0;
    try {
      const WorkerGroup group(cluster, options);
      FAIL("it listens");
    } catch (const RendezvousError& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(what.find("pod-0.late.test:2222 of this process cannot be resolved") !=
            std::string::npos);
      CHECK(what.find("0.6 s, limit --start-timeout") != std::string::npos);
      CHECK(error.exit_code() == kExitPeerLost);
    }
    CHECK(look_ups >= 3);
  }

  TEST_CASE("own name: a numeric address of another machine is refused at once") {
    boost::asio::io_context context;
    CHECK_THROWS_WITH_AS(Acceptor(context, "192.0.2.1", 0, std::chrono::minutes(10)),
                         doctest::Contains("cannot listen on 192.0.2.1:0"), EnvironmentError);
  }
}

}  // namespace own_name_test
