// The story of an elastic group, from beginning to end.
#pragma once

#include "tests/simulation/elastic_plan.h"
#include "tests/simulation/story.h"

namespace troupe::simulation {

/// Needs a process of its own: what it leaves behind is not cleaned up.
[[nodiscard]] Verdict tell(const ElasticPlan& plan, bool verbose);

}  // namespace troupe::simulation
