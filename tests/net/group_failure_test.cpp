#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "tests/support/caught.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/worker_group.h"

namespace group_failure_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using std::chrono::milliseconds;
using std::chrono::seconds;

void sum_of_length(WorkerGroup& group, std::size_t n) {
  std::vector<float> values(n, 1.0F);
  group.all_reduce(Span<float>(values), soon());
}

void broadcast_of_length(WorkerGroup& group, std::size_t n, int root = 0) {
  std::vector<std::byte> bytes(n);
  group.broadcast(Span<std::byte>(bytes), root, soon());
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("desync: another collective is named on every worker, with both sides") {
    for (const int world_size : {2, 3, 4}) {
      const auto errors = try_group(world_size, [&](WorkerGroup& group) {
        for (int i = 0; i < 3; ++i) sum_of_length(group, 10);
        group.rank() == 1 ? broadcast_of_length(group, 80) : sum_of_length(group, 1000);
        group.barrier(soon());  // a sender may leave the collective before the mismatch is seen
      });
      for (const auto& error : errors) {
        const std::string message = message_of(error);
        CAPTURE(world_size);
        CAPTURE(message);
        CHECK(is<DesyncError>(error));
        CHECK(has(message, "all_reduce #4 of 4000 bytes"));
        CHECK(has(message, "worker/1"));
        CHECK(has(message, "broadcast #4 of 80 bytes"));
      }
    }
  }

  TEST_CASE("desync: other lengths, types and roots are seen") {
    const auto check = [](const std::function<void(WorkerGroup&)>& fn, const char* one,
                          const char* other) {
      for (const auto& error : try_group(2, fn)) {
        const std::string message = message_of(error);
        CAPTURE(message);
        CHECK(is<DesyncError>(error));
        CHECK(has(message, one));
        CHECK(has(message, other));
      }
    };
    check([](WorkerGroup& group) { sum_of_length(group, group.rank() == 0 ? 1000 : 2000); },
          "worker/0 is in all_reduce #1 of 4000 bytes", "worker/1 in all_reduce #1 of 8000 bytes");
    check([](WorkerGroup& group) { sum_of_length(group, group.rank() == 0 ? 10 : 1000000); },
          "of 40 bytes", "of 4000000 bytes");
    check(
        [](WorkerGroup& group) {
          std::vector<std::int64_t> longs(4);
          std::vector<double> doubles(4);
          group.rank() == 0 ? group.all_reduce(Span<std::int64_t>(longs), soon())
                            : group.all_reduce(Span<double>(doubles), soon());
        },
        "of int64", "of float64");
    check(
        [](WorkerGroup& group) {
          broadcast_of_length(group, 8, group.rank());
          group.barrier(soon());
        },
        "broadcast #1 of 8 bytes with root ", "worker/");
  }

  TEST_CASE("desync: sums that are alike are told apart by their labels") {
    const auto sum_for = [](WorkerGroup& group, const std::string& what, int values) {
      const troupe::CollectiveLabel label(what);
      sum_of_length(group, values);
    };
    for (const int values : {10, 100'000}) {  // doubling, ring
      const auto errors = try_group(2, [&](WorkerGroup& group) {
        sum_for(group, "a", values);
        sum_of_length(group, values);  // the label is gone
        sum_for(group, group.rank() == 0 ? "a" : "b", values);
      });
      for (const auto& error : errors) {
        const std::string message = message_of(error);
        CAPTURE(message);
        CHECK(is<DesyncError>(error));
        CHECK(has(message, "worker/0 is in all_reduce #3 of"));
        CHECK(has(message, "for other values."));
      }
    }
    // What another library sums is met for first.
    const auto errors = try_group(2, [](WorkerGroup& group) {
      const troupe::CollectiveLabel label(group.rank() == 0 ? "a" : "b");
      group.barrier(soon(), 40);
    });
    for (const auto& error : errors) CHECK(is<DesyncError>(error));
  }

  TEST_CASE("desync: a worker that closes while others sum is named") {
    const auto errors = try_group(3, [](WorkerGroup& group) {
      group.rank() == 2 ? group.close() : sum_of_length(group, 10);
    });
    for (const auto& error : errors) {
      const std::string message = message_of(error);
      CAPTURE(message);
      CHECK(is<DesyncError>(error));
      CHECK(has(message, "worker/2"));
      CHECK(has(message, "close #1"));
    }
  }

  TEST_CASE("timeout: names operation, limit and the worker that has not come") {
    GroupOptions options = test_options();
    options.heartbeat_interval = milliseconds(50);
    std::promise<void> given_up;
    auto released = given_up.get_future().share();
    std::atomic<int> waiting{2};
    const auto errors = try_group(
        3,
        [&](WorkerGroup& group) {
          if (group.rank() == 2) return released.wait();  // stuck, though its network thread lives
          std::vector<float> values(10);
          try {
            group.all_reduce(Span<float>(values), Deadline::in(milliseconds(400)));
          } catch (...) {
            if (waiting.fetch_sub(1) == 1) given_up.set_value();
            throw;
          }
        },
        options);
    for (int rank = 0; rank < 2; ++rank) {
      const auto& error = errors[static_cast<std::size_t>(rank)];
      const std::string message = message_of(error);
      CAPTURE(message);
      CHECK(is<TimeoutError>(error));
      CHECK(has(message, "all_reduce #1 of 40 bytes"));
      CHECK(has(message, "limit 0.4 s"));
      CHECK(has(message, "Not yet in collective #1: worker/2 (at #0)"));
    }
  }

  TEST_CASE("abort: reason and exit code reach all, whoever calls it") {
    for (const int culprit : {0, 2}) {
      const auto errors = try_group(3, [&](WorkerGroup& group) {
        sum_of_length(group, 10);
        if (group.rank() == culprit) {
          group.abort("the data set is empty", 7);
          CHECK_THROWS_AS(group.barrier(soon()), PeerFailed);  // nothing works afterwards
          throw std::runtime_error("own error");
        }
        for (;;) sum_of_length(group, 1000);
      });
      for (int rank = 0; rank < 3; ++rank) {
        const auto& error = errors[static_cast<std::size_t>(rank)];
        const std::string message = message_of(error);
        CAPTURE(message);
        if (rank == culprit) {
          CHECK(message == "own error");
          continue;
        }
        CHECK(is<PeerFailed>(error));
        CHECK(exit_code_of(error) == 7);
        CHECK(has(message, text("worker/", culprit, " failed: the data set is empty.")));
      }
    }
  }

  TEST_CASE("abort: works from another thread while a collective waits") {
    const auto errors = try_group(2, [](WorkerGroup& group) {
      if (group.rank() == 1) {
        while (true) group.barrier(soon());
      }
      auto aborting = std::async(std::launch::async, [&] { group.abort("stop", 3); });
      while (true) group.barrier(soon());
    });
    for (const auto& error : errors) CHECK(exit_code_of(error) == 3);
  }

  TEST_CASE("lost: a worker that leaves without a goodbye is named by all others") {
    for (const int leaver : {0, 1, 3}) {
      const auto errors = try_group(4, [&](WorkerGroup& group) {
        sum_of_length(group, 10);
        if (group.rank() == leaver) return;  // its destructor closes the sockets
        for (;;) sum_of_length(group, 100000);
      });
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == leaver) continue;
        const auto& error = errors[static_cast<std::size_t>(rank)];
        const std::string message = message_of(error);
        CAPTURE(message);
        CHECK(is<PeerLost>(error));
        CHECK(has(message, text("worker/", leaver, " is gone")));
        CHECK(has(message, "in all_reduce #"));
      }
    }
  }

  TEST_CASE("close: twice is once, and after it nothing is left to fail") {
    const auto errors = try_group(3, [](WorkerGroup& group) {
      sum_of_length(group, 10);
      group.close();
      group.close();
      group.abort("too late to matter", 1);
    });
    for (const auto& error : errors) CHECK(message_of(error) == "");
  }

  TEST_CASE("close: after a failure it reports that failure") {
    const auto errors = try_group(2, [](WorkerGroup& group) {
      if (group.rank() == 0) group.abort("broken", 4);
      try {
        for (;;) group.barrier(soon());
      } catch (const PeerFailed&) {
      }
      group.close();
    });
    for (const auto& error : errors) {
      CHECK(is<PeerFailed>(error));
      CHECK(has(message_of(error), "worker/0 failed: broken."));
    }
  }

  TEST_CASE("close: orderly endings stay orderly, twenty times") {
    for (int round = 0; round < 20; ++round) {
      run_group(4, [](WorkerGroup& group) { sum_of_length(group, 10); });
    }
  }
}

}  // namespace group_failure_test
