// The group stays in charge while another library's sum is waited for: what ends the wait, and what
// each worker is told. The library is a function that is never done.
#include "troupe/strategies/engines/engine_wait.h"

#include <chrono>
#include <string>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"

namespace engine_wait_test {

namespace {

using troupe::WorkerGroup;
using troupe::detail::EngineWait;
using troupe::detail::Pause;
using troupe::testing::message_of;
using troupe::testing::test_options;
using troupe::testing::try_group;

const auto never = [] { return false; };

bool shows(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("engine_wait: a worker that leaves in the middle of a sum ends the others' wait") {
    for (const Pause pause : {Pause::brief, Pause::growing}) {
      const auto errors = try_group(3, [pause](WorkerGroup& group) {
        const EngineWait wait(group, "gloo", "gradients", 4);
        if (group.rank() == 1) return;  // its connections close
        wait.until(never, pause);
      });
      for (const std::size_t rank : {0U, 2U}) {
        const std::string message = message_of(errors[rank]);
        CAPTURE(message);
        CHECK(shows(message, "worker/1"));
        CHECK(shows(message,
                    troupe::text("worker/", rank, " was in all_reduce by gloo of gradients.")));
        CHECK_THROWS_AS(std::rethrow_exception(errors[rank]), troupe::PeerLost);
      }
    }
  }

  TEST_CASE("engine_wait: a worker that fails in the middle of a sum tells the others why") {
    const auto errors = try_group(2, [](WorkerGroup& group) {
      const EngineWait wait(group, "gloo", "gradients", 4);
      if (group.rank() == 1) return group.abort("the disk is full.", 1);
      wait.until(never, Pause::growing);
    });
    CHECK(shows(message_of(errors[0]), "worker/1 failed: the disk is full."));
    CHECK_THROWS_AS(std::rethrow_exception(errors[0]), troupe::PeerFailed);
  }

  TEST_CASE("engine_wait: a sum that does not end is ended by the deadline, on all workers") {
    auto options = test_options();
    options.collective_timeout = std::chrono::milliseconds(500);
    const auto errors = try_group(
        2,
        [](WorkerGroup& group) {
          const EngineWait wait(group, "mpi", "gradients", 4);
          // Worker 1 waits for the group's word only: its own deadline must not come first.
          if (group.rank() == 0) wait.until(never, Pause::brief);
          for (;;) group.check("worker/1 was waiting.");
        },
        options);
    CHECK(shows(message_of(errors[0]), "all_reduce by mpi of gradients: not done after 0.5"));
    CHECK_THROWS_AS(std::rethrow_exception(errors[0]), troupe::TimeoutError);
    CHECK(shows(message_of(errors[1]), "worker/0 failed: all_reduce by mpi of gradients"));
  }

  TEST_CASE("engine_wait: an error of the library is the lost worker's, not the library's words") {
    const auto errors = try_group(2, [](WorkerGroup& group) {
      const EngineWait wait(group, "gloo", "gradients", 4);
      if (group.rank() == 1) return;
      wait.failed("Connection reset by peer\nException raised from somewhere");
    });
    const std::string message = message_of(errors[0]);
    CAPTURE(message);
    CHECK(shows(message, "worker/1"));
    CHECK(!shows(message, "reset by peer"));
    CHECK_THROWS_AS(std::rethrow_exception(errors[0]), troupe::PeerLost);
  }

  TEST_CASE("engine_wait: an error that no lost worker explains is shown, in one line") {
    auto options = test_options();
    options.heartbeat_interval = std::chrono::milliseconds(50);
    options.heartbeat_timeout = std::chrono::milliseconds(2500);
    const auto errors = try_group(
        2,
        [](WorkerGroup& group) {
          const EngineWait wait(group, "gloo", "gradients", 4);
          if (group.rank() == 0) wait.failed("no memory\nException raised from somewhere");
          for (;;) group.check("");
        },
        options);
    const std::string message = message_of(errors[0]);
    CHECK(shows(message, "all_reduce by gloo of gradients failed: no memory."));
    CHECK(!shows(message, "somewhere"));
    CHECK(shows(message_of(errors[1]), "no memory"));
  }

  TEST_CASE("engine_wait: workers in different sums are told apart before any byte moves") {
    const auto errors = try_group(2, [](WorkerGroup& group) {
      const EngineWait wait(group, "gloo", "gradients", group.rank() == 0 ? 4 : 8);
    });
    CHECK(shows(message_of(errors[0]), "of 4 bytes"));
    CHECK(shows(message_of(errors[0]), "of 8 bytes"));
  }
}

}  // namespace engine_wait_test
