// Resumed equals uninterrupted with a step in parts and clipped gradients.
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/strategies/kinds/make_strategy.h"

namespace step_resume_test {

using namespace troupe::testing;  // NOLINT: a test

TEST_SUITE("strategies") {
  TEST_CASE("accumulate, clip_norm: interrupted at every step equals uninterrupted, bit for bit") {
    for (const int replicas : {1, 2}) {
      auto options = mirrored_options(replicas);
      options.step.accumulate = 3;
      options.step.clip_norm = 0.5;
      check_interruptions(5, [&](const auto& dir, std::int64_t steps, bool) {
        return train_alone(*troupe::make_strategy(options), TinyHooks(10),
                           quiet_options(steps, 4, dir));
      });
    }
  }
}

}  // namespace step_resume_test
