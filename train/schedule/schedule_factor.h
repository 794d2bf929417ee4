// Factors of the learning rate as functions of the step. Free of LibTorch, so that every value can
// be checked by hand; train/schedule/schedule.h applies them to optimisers.
//
// `step` is the number of the step about to be taken, from 1, as the log shows it. With w warm-up
// steps the factor of step s <= w is s / w; a decay counts t = s - w - 1 = 0, 1, 2, ... from the
// first step after the warm-up:
//   constant  1
//   step      decay_factor ^ floor(t / decay_steps), at least final_factor
//   cosine    final_factor + (1 - final_factor) (1 + cos(pi min(1, t / decay_steps))) / 2
//   plateau   decay_factor ^ drops, at least final_factor; in the warm-up, too
// Source: Goyal et al. 2017, "Accurate, large minibatch SGD" (warm-up); Loshchilov & Hutter 2017,
// "SGDR: Stochastic gradient descent with warm restarts" (cosine, here without restarts).
#pragma once

#include <cstdint>

#include "troupe/core/options/train_options.h"
#include "troupe/strategies/plateau_state.h"

namespace troupe {

/// Whether the options change the learning rate at all.
[[nodiscard]] bool is_scheduled(const ScheduleOptions& options);

/// Throws: ConfigError naming the flag: an unknown name, a number out of range, or `step` without
/// decay_steps.
void validate(const ScheduleOptions& options);

/// Of step `step`. Expects: valid options; cosine with decay_steps above 0.
[[nodiscard]] double schedule_factor(const ScheduleOptions& options, std::int64_t step,
                                     const detail::PlateauState& plateau = {});

enum class PlateauAnswer { none, dropped };

/// Takes the metric of one more validation into account. A value that is not finite is no
/// improvement; the patience-th validation without one lowers the rate, and counting restarts.
PlateauAnswer observe(const ScheduleOptions& options, double value, detail::PlateauState& plateau);

}  // namespace troupe
