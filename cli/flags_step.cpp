#include "cli/flags_step.h"

#include <string>
#include <utility>

#include "cli/flags_making.h"

namespace troupe::detail {

void add_step_flags(std::vector<Flag>& flags, StrategyOptions& strategy) {
  const auto add = [&](Flag made, Flag::Shown shown = Flag::Shown::always) {
    flags.push_back(in_group(std::move(made), "Training step", shown));
  };
  auto& step = strategy.step;
  constexpr std::int64_t most = 1'000'000;
  add(whole<std::int64_t>("accumulate", &step.accumulate,
                          "compute each replica's part of a step in N parts, to save memory; one "
                          "update as without",
                          1, most));
  add(real(
      "clip-norm", &step.clip_norm,
      "limit of the gradients' global norm, after their sum over replicas; 0: none",
      [](double x) { return x >= 0; }, "give a number greater than 0, or 0 for no limit."));
  add(choice("precision", &step.precision,
             "of forward passes: float32, or bfloat16 with parameters in float32", "TYPE",
             named<Precision>({Precision::float32, Precision::bfloat16})));
  add(flag("fused-optimizer", &strategy.buckets.fused_step,
           "do not take Adam's step through large parameters block by block; same numbers"),
      Flag::Shown::in_help_all);
}

}  // namespace troupe::detail
