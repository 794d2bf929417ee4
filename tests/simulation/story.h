// Story: one seed from beginning to end: the world that its plan describes, and what held in it.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/plan.h"

namespace troupe::simulation {

struct Verdict {
  std::string violation;     // "": none
  std::uint64_t digest = 0;  // of all that happened
  bool has_struck = false;   // the trouble came
  bool all_succeeded = false;
  Time lasted = 0;
  int rounds = 0;  // of an elastic group
  int joined = 0;  // those that others let in
};

/// Needs a process of its own: what it leaves behind is not cleaned up.
[[nodiscard]] Verdict tell(const Plan& plan, bool verbose);

}  // namespace troupe::simulation
