// Judge: what must hold at the end of a story, whatever befell the group.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "tests/simulation/worker.h"

namespace troupe::simulation {

/// What the story knows and its workers do not.
struct Facts {
  const Plan& plan;
  const std::deque<Part>& parts;  // by number; the first ones by rank
  bool has_struck = false;        // the trouble came
  Time struck_at = 0;             // when
  std::set<std::string> between;  // tasks at the ends of the connection that it befell
};

/// The tasks that an error holds to be at fault, as its text says it.
[[nodiscard]] std::set<std::string> culprits_in(const Part& part, const Plan& plan);

/// "": all is well.
[[nodiscard]] std::string judge(const Facts& facts);

}  // namespace troupe::simulation
