// ServedPlan: everything that a seed decides before the world of a job with parameter servers
// begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/plan.h"
#include "troupe/core/options/group_options.h"
#include "troupe/core/options/strategy_options.h"

namespace troupe::simulation {

/// Processes are numbered: the workers by rank, then the servers.
struct ServedPlan {
  std::uint64_t seed = 0;
  int workers = 0;
  int servers = 0;
  std::vector<std::string> hosts;  // by process
  std::vector<Time> starts;        // by process
  GroupOptions options;
  ServerOptions pace;
  std::int64_t last_step = 0;
  Time step_pause = 0;  // of each worker in each step, at most
  Time least_delay = 0;
  Time most_delay = 0;
  std::size_t buffer_bytes = 0;

  Trouble trouble = Trouble::none;  // none, a signal, slow, of a connection, or restart
  int victim = 0;
  bool is_timed = false;  // at `delay`; else when the victim comes to `step`, `calls` later
  std::int64_t step = 0;
  std::uint64_t calls = 0;  // to the system; for signals
  Time delay = 0;
  Time duration = 0;  // of what passes; before it is started again

  [[nodiscard]] std::string task(int process) const;
  [[nodiscard]] std::string describe() const;
};

/// Whether this seed's job has parameter servers.
[[nodiscard]] bool is_served(std::uint64_t seed);
[[nodiscard]] ServedPlan draw_served_plan(std::uint64_t seed);

}  // namespace troupe::simulation
