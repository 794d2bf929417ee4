// What one simulated worker does, and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/plan.h"
#include "tests/simulation/world.h"
#include "troupe/core/options/cluster.h"

namespace troupe::simulation {

/// A process that was, or would be, a worker.
struct Part {
  int number = 0;  // of all processes of this world
  int rank = 0;
  std::uint64_t generation = 0;
  unsigned char secret = 7;
  Process* process = nullptr;
  // What it is to do wrong at the deed of the moment.
  Trouble mischief = Trouble::none;

  // What came of it.
  bool has_joined = false;
  bool is_ok = false;
  int exit_code = 0;  // of its error
  std::string kind;   // of its error: "PeerLost"
  std::string cause;
  std::vector<int> group;              // the numbers of all members' processes
  std::vector<std::uint64_t> results;  // a digest of each deed's
  std::string violation;               // what it saw that may not be
  Time ended = 0;
  bool was_stopped = false;
};

/// Runs inside a simulated process. `on_deed`: the worker has come to a deed (Moment::deed).
void work(const Plan& plan, Part& part, const std::function<void(int deed)>& on_deed);

}  // namespace troupe::simulation
