#include "data/shard_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"
#include "data/split_mix.h"

namespace troupe {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// A bijection whose every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) { return detail::SplitMix(x).next(); }

// Unbiased number in [0, bound). std::uniform_int_distribution would do, but each standard library
// draws differently.
std::uint64_t draw_below(std::uint64_t bound, std::mt19937_64& random) {
  const std::uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound: the values too many
  for (;;) {
    const std::uint64_t value = random();
    if (value >= rejected) return value % bound;
  }
}

}  // namespace

ShardPlan::ShardPlan(const ShardPlanOptions& options) : options_(options) {
  if (options.examples < 0) {
    throw ConfigError(text("The data set says that it has ", options.examples, " examples."),
                      "Dataset::size() must return 0 or more.");
  }
  if (options.global_batch < 1) {
    throw ConfigError(text("--batch-size is ", options.global_batch, "."),
                      "give the number of examples in a step over all replicas, 1 or more.");
  }
  if (options.replicas < 1) {
    throw ConfigError(text("The data set is to be divided over ", options.replicas, " replicas."),
                      "ShardPlanOptions::replicas counts those of all workers, 1 or more.");
  }
}

std::int64_t ShardPlan::steps_per_epoch() const {
  return ceil_div(options_.examples, options_.global_batch);
}

std::int64_t ShardPlan::global_examples(std::int64_t step) const {
  TROUPE_CHECK(step >= 0 && step < steps_per_epoch());
  return std::min(options_.global_batch, options_.examples - step * options_.global_batch);
}

Share ShardPlan::share(std::int64_t step, int replica) const {
  TROUPE_CHECK(replica >= 0 && replica < options_.replicas);
  const std::int64_t in_step = global_examples(step);
  const std::int64_t chunk = ceil_div(in_step, options_.replicas);
  // A chunk is at most in_step, but chunk * replica may lie beyond what 64 bits hold.
  const std::int64_t chunks_before = std::min<std::int64_t>(replica, ceil_div(in_step, chunk));
  const std::int64_t begin = std::min(chunks_before * chunk, in_step);
  return {step * options_.global_batch + begin, std::min(chunk, in_step - begin)};
}

std::vector<std::int64_t> ShardPlan::order(std::int64_t epoch) const {
  TROUPE_CHECK(epoch >= 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(options_.examples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options_.shuffle == Shuffle::no) return order;
  std::mt19937_64 random(mix(mix(options_.seed) + static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(draw_below(i, random))]);
  }
  return order;
}

}  // namespace troupe
