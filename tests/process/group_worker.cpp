// One worker of a group as a process of its own: joins, sums in a loop until it is told to end on
// standard input, closes. It reports on standard output, line by line:
//   "joined", "looping", then "closed" or "error <kind> <message>".
//
//   group_worker <rank> <world size> <chief's port> <listening descriptor or -1>
//                <heartbeat timeout in ms> <start timeout in ms>
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/worker_group.h"

namespace {

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

bool told_to_end() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

troupe::Cluster cluster_from(char** argv) {
  troupe::Cluster cluster;
  cluster.members.clear();
  for (int rank = 0; rank < std::atoi(argv[2]); ++rank) {
    cluster.members.push_back({troupe::text("worker/", rank), std::nullopt});
  }
  cluster.members[0].address =
      troupe::Endpoint{"127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[3]))};
  cluster.rank = std::atoi(argv[1]);
  cluster.listener = troupe::detail::InheritedSocket(std::atoi(argv[4]));
  return cluster;
}

void work(troupe::WorkerGroup& group) {
  group.join({});
  say("joined");
  const auto buffer =
      group.make_buffer(100'000 * sizeof(float), troupe::Deadline::in(std::chrono::seconds(60)));
  for (std::int64_t step = 0;; ++step) {
    // The loop ends on all workers after the same step: when any of them was told to.
    std::vector<std::int64_t> end = {told_to_end() ? 1 : 0};
    group.all_reduce(troupe::Span<std::int64_t>(end),
                     troupe::Deadline::in(std::chrono::seconds(60)));
    std::vector<float> values(100'000, 1.0F);
    group.all_reduce(troupe::Span<float>(values), troupe::Deadline::in(std::chrono::seconds(60)));
    group.all_reduce(troupe::Span<float>(reinterpret_cast<float*>(buffer.get()), values.size()),
                     troupe::Deadline::in(std::chrono::seconds(60)));
    if (step == 2) say("looping");
    if (end[0] > 0) break;
  }
  group.close();
  say("closed");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  troupe::GroupOptions options;
  options.heartbeat_timeout = std::chrono::milliseconds(std::atoi(argv[5]));
  options.heartbeat_interval = options.heartbeat_timeout / 4;
  options.start_timeout = std::chrono::milliseconds(std::atoi(argv[6]));
  options.secret = troupe::testing::test_secret();
  options.transport = troupe::testing::transport_under_test();
  try {
    troupe::WorkerGroup group(cluster_from(argv), options);
    work(group);
    return 0;
  } catch (const troupe::Error& error) {
    say(troupe::text("error ", error.kind(), " ", error.what()));
    return error.exit_code();
  }
}
