// ElasticPlan: everything that a seed decides before the world of an elastic group begins.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/plan.h"
#include "troupe/core/options/group_options.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace troupe::simulation {

/// Where in its training a process is.
enum class Place {
  start,      // it begins
  leaving,    // it wants the next round
  left,       // the rendezvous knows that
  issued,     // the next round is about to be told to it
  admitting,  // which some join
  before,     // a step
  between,    // the step's two sums
  concluded,  // the second one is complete, and not committed
  telling,    // the leader has told a record of the step
  voted,      // after the step
  sharing,    // it admits, or is admitted: the state has been passed on
  closing
};

/// One thing that goes wrong.
struct Strike {
  Trouble trouble = Trouble::kill;
  int victim = 0;          // worker, by index
  int other = 0;           // for what is between two
  bool is_double = false;  // both get a signal, at one moment
  // When: `delay` after the world's beginning, or where a process of the victim passes by.
  bool is_timed = false;
  int incarnation = 0;
  int step = 0;  // or later
  Place place = Place::start;
  std::uint64_t calls = 0;  // to the system, from there on; for signals
  Time delay = 0;
  Time duration = 0;  // of what passes; kNever: it does not
};

/// A worker is told to end, by a signal to it alone.
struct Farewell {
  int worker = 0;
  int incarnation = 0;
  int step = 0;  // or later
};

struct ElasticPlan {
  std::uint64_t seed = 0;
  int workers = 0;
  std::vector<std::string> hosts;  // by index
  GroupOptions options;
  RendezvousTerms terms;
  std::vector<Time> starts;  // by index
  int steps = 0;
  Time step_pause = 0;          // of each worker in each step, at most
  std::size_t count = 0;        // of values in a step's first sum
  bool is_in_buffer = false;    // WorkerGroup::make_buffer
  int restarts = 0;             // of lost workers, all together
  Time restart_pause = 0;       // at most
  bool has_late_words = false;  // what a process said last comes after the news of its end
  Time least_delay = 0;
  Time most_delay = 0;
  std::size_t buffer_bytes = 0;
  std::vector<bool> sees;  // the model directory, by index: only such a worker can lead
  std::vector<Strike> strikes;
  std::vector<Farewell> farewells;

  [[nodiscard]] std::string describe() const;
};

/// Whether this seed's group is an elastic one.
[[nodiscard]] bool is_elastic(std::uint64_t seed);
[[nodiscard]] ElasticPlan draw_elastic_plan(std::uint64_t seed);
/// Its process is killed or stopped.
[[nodiscard]] bool is_signal(Trouble trouble);

}  // namespace troupe::simulation
