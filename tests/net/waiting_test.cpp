// How a worker waits for one that has not come to the collective yet: awake at first, then asleep.
// The processor time of the thread that waits tells the two apart, however busy the machine is.
#include <pthread.h>
#include <time.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "core/machine.h"
#include "distributed/worker_group.h"
#include "tests/support/eventually.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using std::chrono::milliseconds;

constexpr milliseconds kAwake{100};  // of processor time; who sleeps takes next to none

std::chrono::nanoseconds time_of(clockid_t clock) {
  timespec now{};
  REQUIRE(clock_gettime(clock, &now) == 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Whether the thread of `clock` computes for kAwake before `limit` is over.
bool is_awake(clockid_t clock, milliseconds limit) {
  const auto begin = time_of(clock);
  return eventually([&] { return time_of(clock) - begin >= kAwake; }, limit);
}

/// Whether rank 0 is awake while it waits for rank 1, which looks for up to `limit`.
bool waits_awake(Transport transport, std::chrono::microseconds arrival_spin, milliseconds limit) {
  GroupOptions options = test_options();
  options.transport = transport;
  options.arrival_spin = arrival_spin;
  std::promise<clockid_t> waiting;
  bool awake = false;
  run_group(
      2,
      [&](WorkerGroup& group) {
        std::vector<float> values(64, 1.0F);
        const Deadline deadline = Deadline::in(std::chrono::seconds(20));
        group.all_reduce(Span<float>(values), deadline);
        if (group.rank() == 0) {
          clockid_t clock{};
          REQUIRE(pthread_getcpuclockid(pthread_self(), &clock) == 0);
          waiting.set_value(clock);
        } else {
          awake = is_awake(waiting.get_future().get(), limit);
        }
        group.all_reduce(Span<float>(values), deadline);
        CHECK(values.front() == 4.0F);
      },
      options);
  return awake;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("waiting: awake until arrival_spin is over, asleep from then on") {
    const bool core_each = inspect_cores().usable >= 2;
    for (const Transport transport :
         {Transport::tcp, Transport::unix_socket, Transport::shared_memory}) {
      CAPTURE(std::string(name_of(transport)));
      // Where there is not a core for each worker nobody spins.
      CHECK(waits_awake(transport, std::chrono::seconds(15),
                        milliseconds(core_each ? 10'000 : 300)) == core_each);
      CHECK_FALSE(waits_awake(transport, milliseconds(0), milliseconds(300)));
    }
  }
}
