// A crowd of silent connections at the door of a chief that may open few files, through the real
// command line.
#include <memory>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/process/launch_support.h"
#include "tests/support/free_port.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/clock.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test

// Connects as soon as the chief listens.
std::unique_ptr<RawClient> connect_to(std::uint16_t port) {
  for (const auto limit = troupe::Deadline::in(kProcessLimit);; poll(nullptr, 0, 20)) {
    try {
      return std::make_unique<RawClient>(port);
    } catch (const std::runtime_error&) {
      if (limit.expired()) throw;
    }
  }
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("door: with 64 descriptors a crowd of silent connections keeps no worker out") {
    const std::uint16_t port = free_port();
    const std::string chief = "127.0.0.1:" + std::to_string(port);
    const auto worker = [&](const std::string& rank) {
      const std::vector<std::string> command = {"sh",
                                                "-c",
                                                "ulimit -n 64 && exec \"$0\" \"$@\"",
                                                TROUPE_TRANSPORT_WORKER,
                                                "--rank",
                                                rank,
                                                "--world-size",
                                                "2",
                                                "--chief-address",
                                                chief,
                                                "--start-timeout",
                                                "15"};
      return std::make_unique<Process>(command);
    };
    std::vector<std::unique_ptr<Process>> group;
    group.push_back(worker("0"));
    std::vector<std::unique_ptr<RawClient>> crowd;  // it would be let go in 2 s, 60 at a time
    for (int i = 0; i < 600; ++i) crowd.push_back(connect_to(port));
    group.push_back(worker("1"));
    for (const auto& process : group) {
      const ProcessResult result = process->wait();
      CAPTURE(result.err);
      CHECK(result.exit_code == 0);
    }
  }
}
