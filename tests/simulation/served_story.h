// Served story: one seed's job with parameter servers, from beginning to end.
#pragma once

#include "tests/simulation/served_plan.h"
#include "tests/simulation/story.h"

namespace troupe::simulation {

/// As tell() of a Plan.
[[nodiscard]] Verdict tell(const ServedPlan& plan, bool verbose);

}  // namespace troupe::simulation
