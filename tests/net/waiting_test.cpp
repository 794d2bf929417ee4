// How a worker waits for one that has not come to the collective yet: awake at first, then asleep.
// The system's state of the thread that waits tells the two apart, however busy the machine is: who
// is awake yields to all others, and can run at any time.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/machine.h"
#include "troupe/distributed/worker_group.h"

namespace waiting_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using std::chrono::milliseconds;

constexpr milliseconds kLook{300};
// Looks, 1 ms apart, at who sleeps: more than locks take. Not in a row: who sleeps looks up now and
// then, and on a busy machine waits for a core to do so.
constexpr int kAsleep = 20;

/// Running, or ready to: 'R'. Sleeping: 'S' (proc(5), /proc/pid/stat).
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  const auto name_end = stat.rfind(") ");
  REQUIRE(name_end != std::string::npos);
  return stat.at(name_end + 2);
}

bool falls_asleep(pid_t thread, milliseconds limit) {
  int looks = 0;
  return eventually([&] { return (looks += state_of(thread) == 'S') >= kAsleep; }, limit);
}

/// Whether rank 0 falls asleep while it waits for rank 1, which looks for up to `limit`.
bool waits_asleep(Transport transport, std::chrono::microseconds arrival_spin, milliseconds limit) {
  GroupOptions options = test_options();
  options.transport = transport;
  options.arrival_spin = arrival_spin;
  std::promise<pid_t> waiting;
  bool asleep = false;
  run_group(
      2,
      [&](WorkerGroup& group) {
        std::vector<float> values(64, 1.0F);
        const Deadline deadline = Deadline::in(std::chrono::seconds(60));
        group.all_reduce(Span<float>(values), deadline);
        if (group.rank() == 0) {
          waiting.set_value(static_cast<pid_t>(syscall(SYS_gettid)));
        } else {
          asleep = falls_asleep(waiting.get_future().get(), limit);
        }
        group.all_reduce(Span<float>(values), deadline);
        CHECK(values.front() == 4.0F);
      },
      options);
  return asleep;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("waiting: awake until arrival_spin is over, asleep from then on") {
    const bool core_each = inspect_cores().usable >= 2;
    for (const Transport transport :
         {Transport::tcp, Transport::unix_socket, Transport::shared_memory}) {
      CAPTURE(std::string(name_of(transport)));
      // Where there is not a core for each worker nobody spins.
      CHECK(waits_asleep(transport, std::chrono::seconds(15), kLook) == !core_each);
      CHECK(waits_asleep(transport, milliseconds(0), std::chrono::seconds(10)));
    }
  }
}

}  // namespace waiting_test
