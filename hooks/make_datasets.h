// make_datasets: create_datasets as the framework calls it.
#pragma once

#include <cstdint>

#include "troupe/data/dataset.h"
#include "troupe/hooks/hooks.h"

namespace troupe::detail {

/// hooks.create_datasets(), with LibTorch's generator of the CPU at a place that `seed` alone
/// decides, and as it was afterwards: a split drawn there by torch::randperm is the same at each
/// call, on every worker and in the evaluator.
/// Throws: HookError for what create_datasets throws, TodoError; ConfigError where its data sets
/// have other classes.
[[nodiscard]] Splits make_datasets(const Hooks& hooks, std::uint64_t seed);

}  // namespace troupe::detail
