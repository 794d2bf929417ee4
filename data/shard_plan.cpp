#include "troupe/data/shard_plan.h"

#include <algorithm>
#include <cstddef>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/sha256.h"
#include "troupe/core/span.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Examples that the sampler orders for an epoch.
std::int64_t ordered_examples(const ShardPlanOptions& options) {
  return options.sampler.draws > 0 ? options.sampler.draws : options.examples;
}

/// An order that skips or repeats examples would train on other data than the sampler says.
void check_order(const ShardPlan& plan, const std::vector<std::int64_t>& order) {
  const ShardPlanOptions& options = plan.options();
  const Sampler& sampler = options.sampler;
  const auto fail = [&](const std::string& what) {
    throw ConfigError(text("the sampler \"", sampler.name, "\" ", what),
                      sampler.repeats ? "return as many numbers of examples as the sampler's draws."
                                      : "return each number from 0 on once, or set "
                                        "Sampler::repeats.");
  };
  if (static_cast<std::int64_t>(order.size()) != ordered_examples(options)) {
    fail(text("has returned ", order.size(), " examples for an epoch of ",
              ordered_examples(options), "."));
  }
  std::vector<bool> seen(static_cast<std::size_t>(options.examples));
  for (const std::int64_t example : order) {
    if (example < 0 || example >= options.examples) {
      fail(text("has returned example ", example, " of ", options.examples, "."));
    }
    const auto at = static_cast<std::size_t>(example);
    if (!sampler.repeats && seen[at]) fail(text("has returned example ", example, " twice."));
    seen[at] = true;
  }
}

}  // namespace

ShardPlan::ShardPlan(const ShardPlanOptions& options) : options_(options) {
  if (options.examples < -1) {
    throw ConfigError(text("The data set says that it has ", options.examples, " examples."),
                      "Dataset::size() must return 0 or more.");
  }
  const std::string& order = options.sampler.name;
  if (is_stream() && order != shuffled().name && order != sequential().name) {
    throw ConfigError(
        text("the sampler \"", order, "\" is given for a stream."),
        "leave it out: a stream is shuffled in its window. Weights and lengths need a "
        "data set whose examples are counted.");
  }
  const Sampler& sampler = options.sampler;
  if (!sampler.order || sampler.draws < 0 || (sampler.draws > 0 && !sampler.repeats)) {
    throw ConfigError(text("the sampler \"", sampler.name, "\" has ",
                           sampler.order ? text(sampler.draws, " draws") : "no order",
                           sampler.repeats ? "." : ", and does not repeat examples."),
                      "give a function, and a number of draws only where Sampler::repeats is set.");
  }
  if (options.global_batch < 1) {
    throw ConfigError(text("--batch-size is ", options.global_batch, "."),
                      "give the number of examples in a step over all replicas, 1 or more.");
  }
  if (options.replicas < 1 || options.batches < 1) {
    throw ConfigError(text("The data set is to be divided over ", options.replicas, " replicas."),
                      "ShardPlanOptions::replicas counts those of all workers, 1 or more.");
  }
}

std::int64_t ShardPlan::epoch_examples() const {
  const std::int64_t all = ordered_examples(options_);
  if (!options_.drop_last || is_stream()) return all;
  return all - all % (options_.global_batch / options_.batches);
}

std::optional<std::int64_t> ShardPlan::smallest_part(std::int64_t parts) const {
  if (is_stream() && !options_.drop_last) return std::nullopt;
  // The first step is a full one where there are several, and only the last may be short.
  const std::int64_t last = steps_per_epoch().value_or(1) - 1;
  std::int64_t least = options_.global_batch;
  for (std::int64_t step = 0; step <= last; step += std::max<std::int64_t>(1, last)) {
    const std::int64_t examples = is_stream() ? options_.global_batch : global_examples(step);
    for (int replica = 0; replica < options_.replicas; ++replica) {
      const std::int64_t count = share_of(examples, replica).count;
      if (count > 0) least = std::min(least, std::max<std::int64_t>(1, count / parts));
    }
  }
  return least;
}

std::optional<std::int64_t> ShardPlan::steps_per_epoch() const {
  if (is_stream()) return std::nullopt;
  return ceil_div(epoch_examples(), options_.global_batch);
}

std::int64_t ShardPlan::global_examples(std::int64_t step) const {
  TROUPE_CHECK(step >= 0 && !is_stream() && step < *steps_per_epoch());
  return std::min(options_.global_batch, epoch_examples() - step * options_.global_batch);
}

Share ShardPlan::share(std::int64_t step, int replica) const {
  Share share = share_of(global_examples(step), replica);
  share.offset += step * options_.global_batch;
  return share;
}

Share ShardPlan::share_of(std::int64_t in_step, int replica) const {
  TROUPE_CHECK(replica >= 0 && replica < options_.replicas && in_step > 0);
  const std::int64_t chunk = ceil_div(in_step, options_.replicas);
  // A chunk is at most in_step, but chunk * replica may lie beyond what 64 bits hold.
  const std::int64_t chunks_before = std::min<std::int64_t>(replica, ceil_div(in_step, chunk));
  const std::int64_t begin = std::min(chunks_before * chunk, in_step);
  return {begin, std::min(chunk, in_step - begin)};
}

std::vector<std::int64_t> ShardPlan::order(std::int64_t epoch) const {
  TROUPE_CHECK(epoch >= 0 && !is_stream());
  const Sampler& sampler = options_.sampler;
  auto order = sampler.order(
      {options_.examples, options_.global_batch / options_.batches, options_.seed, epoch});
  if (!sampler.argument_alone) check_order(*this, order);
  order.resize(static_cast<std::size_t>(epoch_examples()));
  return order;
}

std::string ShardPlan::order_signature() const {
  const Sampler& sampler = options_.sampler;
  if (sampler.argument_alone) return sampler.name;
  const std::vector<std::int64_t> first = order(0);
  Sha256 digest;
  digest.update(as_bytes(Span<const std::int64_t>(first.data(), first.size())));
  return text(sampler.name, " ", digest.hex().substr(0, 16));
}

}  // namespace troupe
