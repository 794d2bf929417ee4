#include "bench/scale/world.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/scale/emulated_network.h"
#include "bench/scale/gate.h"
#include "bench/scale/network_port.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/secret.h"
#include "core/text.h"
#include "launcher/launch_listener.h"

namespace troupe::bench {
namespace {

using Json = nlohmann::ordered_json;
using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kLimit{60'000};  // for one collective, one meeting of threads
constexpr std::uint16_t kChiefPort = 29'500;         // free in a namespace that has just been made

/// A line of /proc/self/status, in its own unit.
std::int64_t status_of(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

std::int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

/// One thing that all ranks do together, `rounds` times.
struct Series {
  Series(int rounds, int ranks)
      : entered(static_cast<std::size_t>(rounds),
                std::vector<TimePoint>(static_cast<std::size_t>(ranks))),
        left(entered) {}
  std::vector<std::vector<TimePoint>> entered;  // by round and rank
  std::vector<std::vector<TimePoint>> left;
  double cpu_share = 0;

  [[nodiscard]] Json json(bool from_first) const {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < entered.size(); ++i) {
      const auto [first, last] = std::minmax_element(entered[i].begin(), entered[i].end());
      const TimePoint begin = from_first ? *first : *last;
      const TimePoint end = *std::max_element(left[i].begin(), left[i].end());
      seconds.push_back(std::chrono::duration<double>(end - begin).count());
    }
    return {{"seconds", seconds}, {"cpu_share", cpu_share}};
  }
};

class World {
 public:
  explicit World(const WorldPlan& plan)
      : plan_(plan),
        gate_(plan.ranks),
        ports_(static_cast<std::size_t>(plan.ranks), -1),
        rendezvous_(plan.rounds, plan.ranks),
        barrier_(plan.rounds, plan.ranks),
        all_reduce_(plan.sizes.size(), Series(plan.rounds, plan.ranks)),
        errors_(static_cast<std::size_t>(plan.ranks)) {}

  void run();
  [[nodiscard]] Json json() const;

 private:
  void live(int rank);
  void build_network(int rank);
  [[nodiscard]] std::unique_ptr<WorkerGroup> join(int rank, std::size_t round);
  [[nodiscard]] Cluster cluster(int rank);
  void measure_barrier(WorkerGroup& group);
  void measure_all_reduce(WorkerGroup& group, std::size_t which);
  void check_sum(const std::vector<float>& values, std::size_t bytes) const;
  void take_facts();
  template <class Work>
  void time(Series& series, std::size_t round, int rank, const Work& work) {
    const auto at = static_cast<std::size_t>(rank);
    series.entered[round][at] = std::chrono::steady_clock::now();
    work();
    series.left[round][at] = std::chrono::steady_clock::now();
  }
  /// Rank 0 accounts for the CPU time that the process spends until the result is destroyed.
  class CpuShare;

  const WorldPlan plan_;
  Gate gate_;
  std::vector<int> ports_;
  std::unique_ptr<EmulatedNetwork> network_;
  std::unique_ptr<LaunchListener> listener_;
  Series rendezvous_;
  Series barrier_;
  std::vector<Series> all_reduce_;
  std::vector<std::exception_ptr> errors_;
  std::int64_t resident_before_ = 0;
  std::int64_t resident_joined_ = 0;
  std::int64_t threads_ = 0;
  std::int64_t descriptors_ = 0;
  EmulatedNetwork::Counts carried_;
};

class World::CpuShare {
 public:
  CpuShare(Series& series, int rank) : series_(series), rank_(rank) {}
  ~CpuShare() {
    if (rank_ != 0) return;
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    series_.cpu_share = (cpu_seconds() - spent_) / wall / inspect_cores().usable;
  }
  CpuShare(const CpuShare&) = delete;
  CpuShare& operator=(const CpuShare&) = delete;

 private:
  Series& series_;
  int rank_;
  double spent_ = cpu_seconds();
  TimePoint began_ = std::chrono::steady_clock::now();
};

void World::run() {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    threads.emplace_back([this, rank] {
      try {
        live(rank);
      } catch (...) {
        errors_[static_cast<std::size_t>(rank)] = std::current_exception();
        gate_.fail();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  network_.reset();
  // Whoever only heard of another's failure says less than that other.
  for (const bool only_heard : {false, true}) {
    for (const std::exception_ptr& error : errors_) {
      if (!error) continue;
      try {
        std::rethrow_exception(error);
      } catch (const PeerFailed&) {
        if (only_heard) throw;
      }
    }
  }
}

void World::live(int rank) {
  if (plan_.network) build_network(rank);
  gate_.pass(kLimit);
  if (rank == 0) resident_before_ = status_of("VmRSS");
  std::unique_ptr<WorkerGroup> group;
  {
    const CpuShare share(rendezvous_, rank);
    for (std::size_t round = 0; round < rendezvous_.entered.size(); ++round) {
      if (group) group->close();
      group.reset();  // its listening socket, too
      group = join(rank, round);
    }
    gate_.pass(kLimit);
  }
  if (rank == 0) take_facts();
  gate_.pass(kLimit);
  measure_barrier(*group);
  for (std::size_t i = 0; i < plan_.sizes.size(); ++i) measure_all_reduce(*group, i);
  gate_.pass(kLimit);
  if (rank == 0 && network_) carried_ = network_->counts();
  group->close();
  group.reset();
  gate_.pass(kLimit);  // the network is needed until all have said goodbye
}

void World::build_network(int rank) {
  ports_[static_cast<std::size_t>(rank)] = enter_network(rank);
  gate_.pass(kLimit);
  if (rank == 0) network_ = std::make_unique<EmulatedNetwork>(std::move(ports_), *plan_.network);
}

Cluster World::cluster(int rank) {
  Cluster cluster;
  cluster.rank = rank;
  cluster.members.clear();
  for (int i = 0; i < plan_.ranks; ++i) {
    cluster.members.push_back({text("worker/", i), std::nullopt});
  }
  cluster.members[0].address = plan_.network ? Endpoint{address_of_port(0), kChiefPort}
                                             : Endpoint{"127.0.0.1", listener_->port()};
  if (listener_ && rank == 0) cluster.listener = InheritedSocket(::dup(listener_->fd()));
  cluster.origin = "benchmark";
  return cluster;
}

std::unique_ptr<WorkerGroup> World::join(int rank, std::size_t round) {
  GroupOptions options;
  options.secret = std::make_shared<const Secret>(std::vector<std::byte>(Secret::kMinBytes));
  options.start_timeout = kLimit;
  options.collective_timeout = kLimit;
  options.transport = Transport::tcp;
  options.insecure = plan_.network.has_value();  // nobody else is on that network
  // All of these machines are this one.
  options.spin = options.arrival_spin = std::chrono::microseconds(0);
  options.sum_route = plan_.route;
  options.group_size = plan_.sum_group;
  gate_.pass(kLimit);
  if (rank == 0 && !plan_.network) listener_ = std::make_unique<LaunchListener>();
  gate_.pass(kLimit);
  std::unique_ptr<WorkerGroup> group;
  time(rendezvous_, round, rank, [&] {
    group = std::make_unique<WorkerGroup>(cluster(rank), options);
    group->join({});
  });
  return group;
}

void World::measure_barrier(WorkerGroup& group) {
  const CpuShare share(barrier_, group.rank());
  group.barrier(Deadline::in(kLimit));
  for (std::size_t round = 0; round < barrier_.entered.size(); ++round) {
    time(barrier_, round, group.rank(), [&] { group.barrier(Deadline::in(kLimit)); });
  }
}

void World::measure_all_reduce(WorkerGroup& group, std::size_t which) {
  Series& series = all_reduce_[which];
  std::vector<float> values(plan_.sizes[which] / sizeof(float));
  // The first time opens TCP's windows, as a training's first steps do.
  group.all_reduce(Span<float>(values), Deadline::in(kLimit));
  gate_.pass(kLimit);
  {
    const CpuShare share(series, group.rank());
    for (std::size_t round = 0; round < series.entered.size(); ++round) {
      std::fill(values.begin(), values.end(), static_cast<float>(group.rank() + 1));
      group.barrier(Deadline::in(kLimit));
      std::this_thread::sleep_for(plan_.compute);
      time(series, round, group.rank(),
           [&] { group.all_reduce(Span<float>(values), Deadline::in(kLimit)); });
      check_sum(values, plan_.sizes[which]);
    }
  }
  gate_.pass(kLimit);
}

// Whole numbers: exact in every order of additions.
void World::check_sum(const std::vector<float>& values, std::size_t bytes) const {
  const auto expected = static_cast<float>(plan_.ranks * (plan_.ranks + 1) / 2);
  const auto wrong =
      std::find_if(values.begin(), values.end(), [&](float value) { return value != expected; });
  if (wrong == values.end()) return;
  throw InternalError(text("all-reduce of ", bytes, " bytes over ", plan_.ranks, " ranks: value ",
                           wrong - values.begin(), " is ", *wrong, ", not ", expected, "."),
                      "measure nothing before this is right.");
}

void World::take_facts() {
  resident_joined_ = status_of("VmRSS");
  threads_ = status_of("Threads");
  descriptors_ = open_descriptors();
}

Json World::json() const {
  Json result = {{"ranks", plan_.ranks},
                 {"rendezvous", rendezvous_.json(/*from_first=*/true)},
                 {"barrier", barrier_.json(/*from_first=*/false)}};
  for (std::size_t i = 0; i < plan_.sizes.size(); ++i) {
    Json one = {{"bytes", plan_.sizes[i]}};
    one.update(all_reduce_[i].json(/*from_first=*/false));
    result["all_reduce"].push_back(one);
  }
  result["threads"] = threads_;
  result["descriptors"] = descriptors_;
  result["resident_bytes_per_rank"] = (resident_joined_ - resident_before_) * 1024 / plan_.ranks;
  if (plan_.network) {
    result["network"] = {{"packets", carried_.packets},
                         {"bytes", carried_.bytes},
                         {"lost", carried_.lost},
                         {"late_at_most_seconds", carried_.latest_by},
                         {"late_seconds_per_packet",
                          carried_.late_seconds /
                              static_cast<double>(std::max<std::uint64_t>(carried_.packets, 1))}};
  }
  return result;
}

}  // namespace

Json measure_world(const WorldPlan& plan) {
  World world(plan);
  world.run();
  return world.json();
}

}  // namespace troupe::bench
