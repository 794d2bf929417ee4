// What the others see when a worker is killed or stopped: who is named, by all, and how soon.
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/process/group_child.h"
#include "tests/support/caught.h"
#include "tests/support/process_file.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using troupe::text;

constexpr milliseconds kLongHeartbeat{60'000};  // so that only the closed connection can tell
constexpr milliseconds kShortHeartbeat{1'000};

// Processes of one group, by rank.
class Group {
 public:
  Group(int world_size, milliseconds heartbeat, milliseconds start_timeout = seconds(60))
      : world_size_(world_size),
        port_(listener_.port()),
        heartbeat_(heartbeat),
        start_timeout_(start_timeout) {
    for (int rank = 0; rank < world_size; ++rank) children_.push_back(nullptr);
  }

  void start(int rank) {
    const int fd = rank == 0 ? listener_.release() : -1;
    children_[static_cast<std::size_t>(rank)] = std::make_unique<GroupChild>(
        TROUPE_GROUP_WORKER,
        std::vector<std::string>{text(rank), text(world_size_), text(port_), text(fd),
                                 text(heartbeat_.count()), text(start_timeout_.count())},
        fd);
    if (fd >= 0) ::close(fd);
  }
  void start_all() {
    for (int rank = 0; rank < world_size_; ++rank) start(rank);
    for (const auto& child : children_) child->wait_for("looping");
  }
  /// Whether rank `rank` has a nameless shared file mapped.
  bool maps_shared_memory(int rank) {
    return has(process_file(text((*this)[rank].pid()), "maps"), "/memfd:troupe");
  }
  GroupChild& operator[](int rank) { return *children_[static_cast<std::size_t>(rank)]; }

  // Every rank but `lost` must end with PeerLost naming it.
  void check_survivors(int lost) {
    for (int rank = 0; rank < world_size_; ++rank) {
      if (rank == lost) continue;
      const int code = (*this)[rank].wait_exit();
      const std::string said = (*this)[rank].said();
      CAPTURE(rank);
      CAPTURE(said);
      CHECK(code == 138);
      CHECK(has(said, text("error peer-lost worker/", lost, " is gone: ")));
      CHECK(has(said, text("worker/", rank, " was in all_reduce #")));
    }
  }

 private:
  LoopbackListener listener_;
  int world_size_;
  std::uint16_t port_;
  milliseconds heartbeat_;
  milliseconds start_timeout_;
  std::vector<std::unique_ptr<GroupChild>> children_;
};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("group: an undisturbed group ends in order when one is told to") {
    Group group(3, kLongHeartbeat);
    group.start_all();
    group[1].tell_to_end();
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(group[rank].wait_exit() == 0);
      CHECK(has(group[rank].said(), "closed"));
    }
  }

  TEST_CASE("group: kill -9 of any worker is named by all others within two seconds") {
    for (const int lost : {0, 1, 2}) {
      CAPTURE(lost);
      Group group(3, kLongHeartbeat);
      group.start_all();
      const auto begin = steady_clock::now();
      group[lost].signal(SIGKILL);
      group.check_survivors(lost);
      CHECK(steady_clock::now() - begin < seconds(2));
    }
  }

  TEST_CASE("group: killed all at once, it leaves nothing in shared memory") {
    const auto entries = [] {
      std::set<std::string> names;
      for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        if (has(entry.path().string(), "troupe")) names.insert(entry.path().string());
      }
      return names;
    };
    const auto before = entries();
    Group group(3, kLongHeartbeat);
    group.start_all();
    const bool shares = transport_under_test() == troupe::Transport::automatic;
    CHECK(group.maps_shared_memory(0) == shares);  // else this test shows nothing
    // Stopped first: none runs on until it sees that another is gone, and ends by itself.
    for (const int signal : {SIGSTOP, SIGKILL}) {
      for (int rank = 0; rank < 3; ++rank) group[rank].signal(signal);
    }
    for (int rank = 0; rank < 3; ++rank) CHECK(group[rank].wait_exit() == -SIGKILL);
    CHECK(entries() == before);
  }

  TEST_CASE("group: a stopped worker is named within the heartbeat timeout, and stays out") {
    for (const int lost : {0, 2}) {
      CAPTURE(lost);
      Group group(3, kShortHeartbeat);
      group.start_all();
      const auto begin = steady_clock::now();
      group[lost].signal(SIGSTOP);
      group.check_survivors(lost);
      CHECK(steady_clock::now() - begin < kShortHeartbeat + seconds(1));
      CHECK(steady_clock::now() - begin >= kShortHeartbeat / 2);
      CHECK(has(group[lost == 0 ? 1 : 0].said(), "no heartbeat for "));

      group[lost].signal(SIGCONT);
      const int code = group[lost].wait_exit();
      const std::string said = group[lost].said();
      CAPTURE(said);
      CHECK(code == 138);
      CHECK(has(said, text("this worker (worker/", lost, ") was expelled")));
    }
  }

  TEST_CASE("group: a group that is stopped as a whole goes on when it is continued") {
    Group group(3, kShortHeartbeat);
    group.start_all();
    for (int rank = 0; rank < 3; ++rank) group[rank].signal(SIGSTOP);
    // The time itself is what is tested: all clocks run on for two timeouts.
    const auto until = steady_clock::now() + 2 * kShortHeartbeat;
    while (steady_clock::now() < until) ::poll(nullptr, 0, 50);
    for (int rank = 0; rank < 3; ++rank) group[rank].signal(SIGCONT);
    group[2].tell_to_end();
    for (int rank = 0; rank < 3; ++rank) {
      const int code = group[rank].wait_exit();
      CAPTURE(group[rank].said());
      CHECK(code == 0);
    }
  }

  TEST_CASE("group: a worker killed during the rendezvous is named when nobody takes its place") {
    Group group(3, kLongHeartbeat, milliseconds(1500));
    group.start(0);
    group.start(1);
    group[1].signal(SIGKILL);
    group.start(2);
    for (const int rank : {0, 2}) {
      const int code = group[rank].wait_exit();
      const std::string said = group[rank].said();
      CAPTURE(said);
      CHECK(code == 138);
      CHECK(has(said, "error rendezvous "));
      CHECK(has(said, "worker/1 did not join"));
    }
  }

  TEST_CASE("group: a worker killed during the rendezvous can be started again") {
    Group group(3, kLongHeartbeat);
    group.start(0);
    group.start(1);
    group[1].signal(SIGKILL);
    CHECK(group[1].wait_exit() == -SIGKILL);
    group.start(1);
    group.start(2);
    for (int rank = 0; rank < 3; ++rank) group[rank].wait_for("looping");
    group[0].tell_to_end();
    for (int rank = 0; rank < 3; ++rank) CHECK(group[rank].wait_exit() == 0);
  }

  TEST_CASE("group: without its chief the rendezvous ends on time and says where it looked") {
    Group group(2, kLongHeartbeat, milliseconds(1500));
    group.start(0);
    group[0].signal(SIGKILL);
    CHECK(group[0].wait_exit() == -SIGKILL);
    group.start(1);
    CHECK(group[1].wait_exit() == 138);
    CHECK(has(group[1].said(), "worker/1 could not join the chief worker/0 at 127.0.0.1:"));
  }
}
