#include "troupe/strategies/replica_threads.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"

using troupe::detail::ReplicaThreads;

namespace {

constexpr std::chrono::microseconds kSleep{0};
constexpr std::chrono::microseconds kSpin{1000};

ReplicaThreads::Options replicas(int count, std::chrono::microseconds spin = kSleep) {
  ReplicaThreads::Options options;
  options.replicas = count;
  options.spin = spin;
  options.timeout = std::chrono::seconds(20);
  return options;
}

/// The message of the exception of type E that `run` ends with.
template <class E>
std::string failure_of(ReplicaThreads& threads, const std::function<void(int)>& work) {
  try {
    threads.run(work);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE(
      "replica_threads: every replica runs, the first on the caller's thread, always the same") {
    ReplicaThreads threads(replicas(4));
    std::vector<std::thread::id> first(4);
    std::vector<std::thread::id> second(4);
    threads.run([&](int i) { first[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
    threads.run([&](int i) { second[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
    CHECK(first[0] == std::this_thread::get_id());
    CHECK(first == second);
    for (std::size_t i = 1; i < 4; ++i) CHECK(first[i] != first[i - 1]);
  }

  TEST_CASE("replica_threads: what was done before a meeting is seen after it") {
    // Plain memory: the thread sanitizer is the judge of the order.
    for (const auto& [count, spin] :
         {std::pair(1, kSleep), {2, kSleep}, {3, kSleep}, {7, kSleep}, {2, kSpin}, {3, kSpin}}) {
      ReplicaThreads threads(replicas(count, spin));
      std::vector<int> values(static_cast<std::size_t>(count));
      std::vector<int> sums(values.size());
      for (int round = 0; round < 50; ++round) {
        threads.run([&](int i) {
          const auto own = static_cast<std::size_t>(i);
          for (int step = 0; step < 4; ++step) {
            values[own] = round + step + i;
            threads.meet(i, "the sum");
            sums[own] = 0;
            for (const int value : values) sums[own] += value;
            threads.meet(i, "the end");
          }
        });
        const int expected = count * (round + 3) + count * (count - 1) / 2;
        for (const int sum : sums) REQUIRE(sum == expected);
      }
    }
  }

  TEST_CASE("replica_threads: each thread is prepared once, before its first work") {
    auto options = replicas(3);
    std::atomic<int> prepared{0};
    options.start_thread = [&](int) { ++prepared; };
    ReplicaThreads threads(options);
    threads.run([](int) {});
    threads.run([](int) {});
    CHECK(prepared == 2);  // the caller's thread is the caller's
  }

  TEST_CASE(
      "replica_threads: a replica's exception comes out with its type, the others are let go") {
    auto options = replicas(4);
    SUBCASE("asleep") {}
    SUBCASE("spinning") { options.spin = kSpin; }
    options.first = 8;
    ReplicaThreads threads(options);
    std::vector<std::string> let_go(4);
    const auto work = [&](int i) {
      if (i == 2) throw troupe::DataError("the shelf is empty.", "fill it.");
      try {
        threads.meet(i, "the sum");
      } catch (const troupe::PeerFailed& error) {
        let_go[static_cast<std::size_t>(i)] = error.what();
        CHECK(error.exit_code() == troupe::kExitFailed);
        throw;
      }
    };
    CHECK(failure_of<troupe::DataError>(threads, work) == "the shelf is empty. Fix: fill it.");
    for (const std::size_t i : {0U, 1U, 3U}) {
      CHECK(let_go[i] == "replica 10 failed: the shelf is empty. Fix: fill it.");
    }
    // And the next run is a new one.
    CHECK_NOTHROW(threads.run([&](int i) { threads.meet(i, "the sum"); }));
  }

  TEST_CASE("replica_threads: of several failures the lowest replica's own counts") {
    ReplicaThreads threads(replicas(4));
    for (int round = 0; round < 20; ++round) {
      CHECK(failure_of<std::runtime_error>(threads, [](int i) {
              if (i > 0) throw std::runtime_error(troupe::text("no ", i));
            }) == "no 1");
    }
    // Replica 0 was let go; that another exception came of it makes it no cause.
    const auto work = [&](int i) {
      if (i == 3) throw std::runtime_error("the third");
      try {
        threads.meet(i, "the sum");
      } catch (const troupe::PeerFailed&) {
        throw std::logic_error("wrapped");
      }
    };
    CHECK(failure_of<std::runtime_error>(threads, work) == "the third");
  }

  TEST_CASE("replica_threads: something thrown that is no exception is passed on") {
    ReplicaThreads threads(replicas(2));
    CHECK_THROWS_AS(threads.run([&](int i) {
      if (i == 1) throw 7;
      threads.meet(i, "the sum");
    }),
                    int);
  }

  TEST_CASE("replica_threads: a replica that ends while others meet is named at once") {
    for (const auto& [leaving, spin] :
         {std::pair(0, kSleep), {1, kSleep}, {2, kSleep}, {0, kSpin}, {2, kSpin}}) {
      ReplicaThreads threads(replicas(3, spin));
      const auto message = failure_of<troupe::DesyncError>(threads, [&](int i) {
        if (i != leaving) threads.meet(i, "the sum");
      });
      CAPTURE(message);
      CHECK(message.find(troupe::text("replica ", leaving, " ended its step")) !=
            std::string::npos);
      CHECK(message.find("the sum") != std::string::npos);
    }
  }

  TEST_CASE("replica_threads: replicas in different meetings are told apart") {
    ReplicaThreads threads(replicas(2));
    const auto message = failure_of<troupe::DesyncError>(
        threads, [&](int i) { threads.meet(i, i == 0 ? "the left" : "the right"); });
    CHECK(message.find("the left") != std::string::npos);
    CHECK(message.find("the right") != std::string::npos);
  }

  TEST_CASE("replica_threads: one that does not come in time is named, and awaited") {
    auto options = replicas(3);
    options.timeout = std::chrono::milliseconds(30);
    ReplicaThreads threads(options);
    const troupe::testing::CapturedLog log;
    std::atomic<int> released{0};
    const auto message = failure_of<troupe::TimeoutError>(threads, [&](int i) {
      if (i == 1) {
        // It comes only when the other two have given up.
        while (released < 2) std::this_thread::yield();
        while (!log.has("is out of its step")) std::this_thread::yield();
        threads.meet(i, "the sum");
        return;
      }
      try {
        threads.meet(i, "the sum");
      } catch (...) {
        ++released;
        throw;
      }
    });
    CHECK(message.find("replica 1 did not reach the sum within 0.03 s") != std::string::npos);
    CHECK(log.has("The run cannot end before replica 1 is out of its step"));
  }
}
