// Resumed equals uninterrupted with a step in parts and clipped gradients.
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/strategies/kinds/make_strategy.h"

namespace step_resume_test {

using troupe::StrategyOptions;
using troupe::testing::mirrored_options;
using troupe::testing::TinyHooks;

TEST_SUITE("strategies") {
  TEST_CASE("accumulate, clip_norm: interrupted at every step equals uninterrupted, bit for bit") {
    const auto run = [](const troupe::testing::TempDir& dir, int replicas, std::int64_t steps) {
      StrategyOptions made = mirrored_options(replicas);
      made.step.accumulate = 3;
      made.step.clip_norm = 0.5;
      const auto strategy = troupe::make_strategy(made);
      const TinyHooks hooks(10);
      auto state = strategy->create_state(hooks, 1);
      const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
      troupe::TrainOptions options;
      options.model_dir = dir.path().string();
      options.max_steps = steps;
      options.batch_size = 4;
      options.progress = false;
      options.log_every = 0;
      const auto history = troupe::train(*strategy, hooks, state, data, options);
      return troupe::text(troupe::common_parameter_hash(*strategy, state), " ", state.step, " ",
                          history.train ? history.train->losses[0].second : 0.0);
    };
    for (const int replicas : {1, 2}) {
      const troupe::testing::TempDir whole;
      const std::string expected = run(whole, replicas, 5);
      for (std::int64_t stop = 1; stop < 5; ++stop) {
        CAPTURE(stop);
        const troupe::testing::TempDir dir;
        (void)run(dir, replicas, stop);
        CHECK(run(dir, replicas, 5) == expected);
      }
    }
  }
}

}  // namespace step_resume_test
