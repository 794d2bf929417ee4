#include "bench/scale/schedules.h"

#include <algorithm>
#include <deque>
#include <map>

#include "core/check.h"
#include "net/frame.h"

namespace troupe::bench {
namespace {

using Time = NetworkModel::Time;

// Messages travel in pieces of this size, so that those of several senders share a line.
constexpr std::size_t kPieceBytes = std::size_t{16} * 1024;

std::vector<std::vector<Step>> steps_for(int ranks) {
  TROUPE_CHECK(ranks > 0);
  return std::vector<std::vector<Step>>(static_cast<std::size_t>(ranks));
}

std::size_t part(std::size_t bytes, int parts) {
  const auto count = static_cast<std::size_t>(parts);
  return (bytes + count - 1) / count;
}

/// All of `members` send `bytes` to each other.
void exchange(Schedule& schedule, const std::vector<int>& members, std::size_t bytes) {
  const std::size_t count = members.size();
  for (std::size_t i = 0; i < count; ++i) {
    Step step;
    for (std::size_t k = 1; k < count; ++k) {  // each begins with another, so that none is flooded
      step.sends.push_back({members[(i + k) % count], bytes});
      step.receives.push_back({members[(i + count - k) % count], bytes});
    }
    schedule[static_cast<std::size_t>(members[i])].push_back(std::move(step));
  }
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const NetworkShape& network, Time per_message)
      : schedule_(schedule),
        model_(static_cast<int>(schedule.size()), network),
        per_message_(per_message),
        ranks_(schedule.size()) {}

  double run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin_step(static_cast<int>(rank), {});
    while (const auto next = next_time()) {
      while (!departures_.empty() && departures_.begin()->first <= *next) {
        const auto [at, packet] = *departures_.begin();
        departures_.erase(departures_.begin());
        model_.send(at, packet);
      }
      model_.advance(*next, [this](const Packet& packet, Time at) { arrive(packet, at); });
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      TROUPE_CHECK_EQ(ranks_[rank].at, schedule_[rank].size());  // else the schedule deadlocks
    }
    return std::chrono::duration<double>(end_).count();
  }

 private:
  struct Rank {
    std::size_t at = 0;                   // the step it is in
    std::map<int, std::size_t> received;  // bytes by sender, not yet taken by a step
    Time free{0};                         // when it has done with sending
  };

  [[nodiscard]] std::optional<Time> next_time() const {
    auto next = model_.next();
    if (!departures_.empty())
      next = std::min(next.value_or(Time::max()), departures_.begin()->first);
    return next;
  }

  void begin_step(int rank, Time now) {
    Rank& me = ranks_[static_cast<std::size_t>(rank)];
    const auto& steps = schedule_[static_cast<std::size_t>(rank)];
    if (me.at == steps.size()) return;
    for (const Message& message : steps[me.at].sends) {
      me.free = std::max(me.free, now) + per_message_;
      std::size_t left = message.bytes + kFrameHeaderBytes;
      while (left > 0) {
        const std::size_t piece = std::min(left, kPieceBytes);
        departures_.emplace(me.free, Packet{rank, message.peer, piece, false, 0});
        left -= piece;
      }
    }
    try_to_end_step(rank, now);
  }

  void arrive(const Packet& packet, Time at) {
    end_ = std::max(end_, at);
    ranks_[static_cast<std::size_t>(packet.to)].received[packet.from] += packet.bytes;
    try_to_end_step(packet.to, at);
  }

  void try_to_end_step(int rank, Time now) {
    Rank& me = ranks_[static_cast<std::size_t>(rank)];
    const auto& steps = schedule_[static_cast<std::size_t>(rank)];
    if (me.at == steps.size()) return;
    const Step& step = steps[me.at];
    for (const Message& message : step.receives) {
      if (me.received[message.peer] < message.bytes + kFrameHeaderBytes) return;
    }
    for (const Message& message : step.receives) {
      me.received[message.peer] -= message.bytes + kFrameHeaderBytes;
    }
    ++me.at;
    begin_step(rank, now);
  }

  const Schedule& schedule_;
  NetworkModel model_;
  Time per_message_;
  std::vector<Rank> ranks_;
  std::multimap<Time, Packet> departures_;
  Time end_{0};
};

}  // namespace

Schedule ring_schedule(int ranks, std::size_t bytes) {
  Schedule schedule = steps_for(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Step step{{{(rank + 1) % ranks, part(bytes, ranks)}},
                    {{(rank + ranks - 1) % ranks, part(bytes, ranks)}}};
    schedule[static_cast<std::size_t>(rank)].assign(static_cast<std::size_t>(2 * (ranks - 1)),
                                                    step);
  }
  return schedule;
}

Schedule doubling_schedule(int ranks, std::size_t bytes) {
  TROUPE_CHECK((ranks & (ranks - 1)) == 0);
  Schedule schedule = steps_for(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int distance = 1; distance < ranks; distance *= 2) {
      schedule[static_cast<std::size_t>(rank)].push_back(
          {{{rank ^ distance, bytes}}, {{rank ^ distance, bytes}}});
    }
  }
  return schedule;
}

Schedule direct_schedule(int ranks, std::size_t bytes) {
  Schedule schedule = steps_for(ranks);
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  for (int phase = 0; phase < 2; ++phase) exchange(schedule, all, part(bytes, ranks));
  return schedule;
}

Schedule two_level_schedule(int ranks, int group_size, std::size_t bytes) {
  TROUPE_CHECK(group_size > 0 && ranks % group_size == 0);
  Schedule schedule = steps_for(ranks);
  const int groups = ranks / group_size;
  const auto within = [&] {
    for (int group = 0; group < groups; ++group) {
      std::vector<int> members;
      for (int i = 0; i < group_size; ++i) members.push_back(group * group_size + i);
      exchange(schedule, members, part(bytes, group_size));
    }
  };
  within();
  for (int phase = 0; phase < 2; ++phase) {
    for (int i = 0; i < group_size; ++i) {
      std::vector<int> owners;
      for (int group = 0; group < groups; ++group) owners.push_back(group * group_size + i);
      exchange(schedule, owners, part(bytes, ranks));
    }
  }
  within();
  return schedule;
}

double simulate(const Schedule& schedule, const NetworkShape& network, Time per_message) {
  return Simulation(schedule, network, per_message).run();
}

}  // namespace troupe::bench
