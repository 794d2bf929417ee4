// How gradients travel, through the real command line: the same weights whatever is chosen, and a
// worker that is killed while buckets are on their way.
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace gradient_exchange_test {

using troupe::text;
using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::Process;
using troupe::testing::run_on;
using troupe::testing::summary;
using troupe::testing::Words;
using troupe::testing::operator+;

TEST_SUITE("training") {
  TEST_CASE("--overlap, --bucket-mb, --transport: nothing changes a bit of the weights") {
    const auto hash_of = [](const Words& more) {
      return summary(run_on(2, kMnist +
                                   Words{"--train-examples", "300", "--batch-size", "60",
                                         "--max-steps", "9", "--threads", "1", "--json-summary"} +
                                   more))["parameter_hash"];
    };
    const auto expected = hash_of({"--overlap", "off", "--transport", "tcp"});
    CHECK(hash_of({"--overlap", "on", "--bucket-mb", "0.001"}) == expected);
    CHECK(hash_of({"--overlap", "on", "--bucket-mb", "0.5", "--transport", "unix"}) == expected);
    CHECK(hash_of({"--overlap", "auto", "--transport", "shm"}) == expected);
  }

  TEST_CASE("--overlap on: kill -9 while buckets travel is named by the others within 2 s") {
    for (const std::string transport : {"tcp", "shm"}) {
      CAPTURE(transport);
      const auto port = text(troupe::testing::free_port());
      std::vector<std::unique_ptr<Process>> workers;
      for (const char* rank : {"0", "1", "2"}) {
        workers.push_back(std::make_unique<Process>(
            kMnist + Words{"--rank", rank, "--world-size", "3", "--chief-address",
                           "127.0.0.1:" + port, "--epochs", "1000", "--threads", "1", "--log-every",
                           "1", "--overlap", "on", "--bucket-mb", "0.001", "--transport",
                           transport}));
      }
      REQUIRE(workers[0]->wait_for_output("step = 5 ", kLimit));
      const auto killed = std::chrono::steady_clock::now();
      workers[1]->signal(SIGKILL);
      for (const std::size_t i : {0U, 2U}) {
        CAPTURE(i);
        const auto result = workers[i]->wait(kLimit);
        CAPTURE(result.err);
        CHECK(result.exit_code == 138);
        CHECK(result.err.find("worker/1 is gone") != std::string::npos);
      }
      CHECK(std::chrono::steady_clock::now() - killed < std::chrono::seconds(2));
    }
  }
}

}  // namespace gradient_exchange_test
