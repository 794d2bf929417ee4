// Plan: everything that a seed decides before its world begins: the group, what it does, and what
// befalls it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/world.h"
#include "troupe/core/options/cluster.h"
#include "troupe/core/options/group_options.h"

namespace troupe::simulation {

/// No group whose members stay may take longer.
inline constexpr Time kEndOfTime = 240 * kSecond;

inline std::chrono::milliseconds ms(std::int64_t count) { return std::chrono::milliseconds(count); }

/// One collective of the group, or several where the kind says so.
struct Deed {
  enum class Kind {
    sum_float,
    sum_double,
    sum_int64,
    sum_16_bits,
    sum_in_buffer,
    broadcast,
    all_gather,
    gather,
    barrier,
    announce,
  };
  Kind kind;
  std::size_t count;  // of values or bytes
  int root;
  Time pause;  // what each worker does before, at most
};

enum class Trouble {
  none,
  kill,         // SIGKILL
  power_loss,   // of its machine: no end of a connection, only silence
  short_stop,   // SIGSTOP, and SIGCONT before anybody may miss it
  long_stop,    // and after all have given it up
  slow,         // each turn comes late
  reset,        // a connection breaks for both ends
  half_reset,   // for one of them
  half_open,    // nothing arrives any more, in neither direction, and no end is told
  cut_one_way,  // between two machines
  cut_both_ways,
  isolated,   // a machine from all others
  short_cut,  // mended soon
  flipped_bit,
  no_memory,       // nothing to share
  no_descriptors,  // for a while
  hang,            // it does not come to a collective
  failure,         // its own, which it reports
  desync,          // it calls another collective than the others
  late,            // it is started late
  never,           // it is not started
  stale,           // a process of the start before knocks
  newer,           // one of the next start knocks
  wrong_secret,    // one with another secret knocks
  twin,            // a second process has the same task
  restart,         // killed, and started again at once
  next_start,      // all but one are killed, and all are started again as the next start
};
inline constexpr int kTroubles = static_cast<int>(Trouble::next_start) + 1;
[[nodiscard]] const char* name_of(Trouble trouble);

/// When it comes.
struct Moment {
  enum class Kind { time, deed, call, message };
  Kind kind = Kind::time;
  Time delay = 0;          // from the beginning, or from when the worker comes to the deed
  int deed = 0;            // -1: it joins; the number of deeds: it closes
  std::uint64_t call = 0;  // of the worker's to the system
  int message = 0;         // of those to the worker, as it is sent
};

struct Plan {
  std::uint64_t seed = 0;
  int workers = 0;
  std::vector<std::string> hosts;  // by rank
  Cluster cluster;                 // of rank 0
  GroupOptions options;
  std::vector<Time> starts;  // by rank
  std::vector<Deed> deeds;
  Time least_delay = 0;
  Time most_delay = 0;
  Time detour = 0;  // from the victim's host to the chief's
  std::size_t buffer_bytes = 0;

  Trouble trouble = Trouble::none;
  Moment moment;
  int victim = 0;
  int other = 0;           // of two
  Time duration = 0;       // of what passes
  std::uint64_t byte = 0;  // of a flipped bit

  [[nodiscard]] std::string describe() const;
  [[nodiscard]] bool on_one_machine() const;
};

[[nodiscard]] Plan draw_plan(std::uint64_t seed);

}  // namespace troupe::simulation
