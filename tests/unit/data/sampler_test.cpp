#include "troupe/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/data/shard_plan.h"

namespace sampler_test {

namespace {

using troupe::Sampler;
using troupe::ShardPlan;
using troupe::ShardPlanOptions;

using Indices = std::vector<std::int64_t>;

ShardPlan make_plan(std::int64_t examples, std::int64_t batch, const Sampler& sampler,
                    int replicas = 1, std::uint64_t seed = 1) {
  ShardPlanOptions options;
  options.examples = examples;
  options.global_batch = batch;
  options.replicas = replicas;
  options.seed = seed;
  options.sampler = sampler;
  return ShardPlan(options);
}

/// The cause of the ConfigError that `body` throws; empty: none.
template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
    return "";
  } catch (const troupe::ConfigError& error) {
    return error.cause();
  }
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Lengths 1 to 40, evenly.
Indices even_lengths(std::int64_t examples) {
  Indices lengths;
  for (std::int64_t i = 0; i < examples; ++i) lengths.push_back(1 + (i * 7919) % 40);
  return lengths;
}

/// Values that fill up the batches of an order to their longest examples.
std::int64_t padding(const Indices& order, const Indices& lengths, std::int64_t batch) {
  std::int64_t filled = 0;
  const auto examples = static_cast<std::int64_t>(order.size());
  for (std::int64_t begin = 0; begin < examples; begin += batch) {
    const std::int64_t end = std::min(begin + batch, examples);
    std::int64_t longest = 0;
    std::int64_t sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto length = lengths[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
      longest = std::max(longest, length);
      sum += length;
    }
    filled += longest * (end - begin) - sum;
  }
  return filled;
}

bool is_permutation(Indices order) {
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("sampler: weighted draws have the frequencies of the weights") {
    const std::vector<double> weights = {0, 1, 2, 3, 0, 4, 0};
    constexpr std::int64_t kDraws = 100'000;
    const Indices order = make_plan(7, 10, troupe::weighted(weights, kDraws)).order(3);
    CHECK(order.size() == kDraws);
    std::vector<double> counts(weights.size());
    for (const auto example : order) ++counts[static_cast<std::size_t>(example)];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double share = weights[i] / 10;
      const double deviation = std::sqrt(kDraws * share * (1 - share));
      // The sequence is fixed, so this is no matter of chance.
      CHECK(std::abs(counts[i] - kDraws * share) <= 4 * deviation);
    }
  }

  TEST_CASE("sampler: weighted draws depend on seed and epoch alone") {
    const std::vector<double> weights = {1, 2, 3, 4, 5};
    const auto order = [&](std::int64_t batch, int replicas, std::uint64_t seed, int epoch) {
      return make_plan(5, batch, troupe::weighted(weights, 50), replicas, seed).order(epoch);
    };
    const Indices first = order(4, 1, 1, 0);
    CHECK(order(10, 3, 1, 0) == first);
    CHECK(order(4, 1, 2, 0) != first);
    CHECK(order(4, 1, 1, 1) != first);
    // The same on every machine: computed in Python.
    CHECK(Indices(first.begin(), first.begin() + 10) == Indices{3, 2, 4, 2, 2, 4, 1, 4, 3, 0});
  }

  TEST_CASE("sampler: an epoch of draws has as many steps as they need") {
    const ShardPlan plan = make_plan(5, 4, troupe::weighted({1, 1, 1, 1, 1}, 11), 2);
    CHECK(plan.epoch_examples() == 11);
    CHECK(plan.steps_per_epoch() == 3);
    CHECK(plan.global_examples(2) == 3);
    CHECK(plan.share(2, 1).offset == 10);
    CHECK(make_plan(5, 4, troupe::weighted({1, 1, 1, 1, 1})).steps_per_epoch() == 2);
  }

  TEST_CASE("sampler: bucketed by length, padding is below a tenth of shuffling's") {
    constexpr std::int64_t kExamples = 20'000;
    constexpr std::int64_t kBatch = 32;
    const Indices lengths = even_lengths(kExamples);
    const Indices order = make_plan(kExamples, kBatch, troupe::bucketed(lengths)).order(1);
    const Indices mixed = make_plan(kExamples, kBatch, troupe::shuffled()).order(1);
    const auto little = padding(order, lengths, kBatch);
    const auto much = padding(mixed, lengths, kBatch);
    MESSAGE("values of padding: bucketed ", little, ", shuffled ", much);
    CHECK(little * 10 < much);
    CHECK(little > 0);
  }

  TEST_CASE("sampler: bucketed reads every example once, whatever divides what") {
    for (const std::int64_t examples : {0, 1, 5, 31, 32, 33, 640, 1000}) {
      for (const std::int64_t batch : {1, 7, 32}) {
        for (const std::int64_t batches : {1, 3, 100}) {
          const Indices lengths = even_lengths(examples);
          const ShardPlan plan = make_plan(examples, batch, troupe::bucketed(lengths, batches));
          CHECK(is_permutation(plan.order(0)));
          if (examples > 100) CHECK(plan.order(0) != plan.order(1));
        }
      }
    }
  }

  TEST_CASE("sampler: bucketed mixes long batches and short ones") {
    const Indices lengths = even_lengths(4000);
    const Indices order = make_plan(4000, 10, troupe::bucketed(lengths, 400)).order(0);
    int ascents = 0;
    for (std::size_t at = 10; at < order.size(); at += 10) {
      const auto length = [&](std::size_t i) {
        return lengths[static_cast<std::size_t>(order[i])];
      };
      if (length(at) > length(at - 10)) ++ascents;
    }
    CHECK(ascents > 150);  // of 399; sorted there would be 39
    CHECK(ascents < 240);
  }

  TEST_CASE("sampler: batches that several workers take apart are bucketed one by one") {
    ShardPlanOptions options;
    options.examples = 1000;
    options.global_batch = 30;
    options.batches = 3;
    options.sampler = troupe::bucketed(even_lengths(1000));
    CHECK(ShardPlan(options).order(2) ==
          make_plan(1000, 10, troupe::bucketed(even_lengths(1000))).order(2));
  }

  TEST_CASE("sampler: one's own is a function") {
    const Sampler backwards{"backwards", [](const troupe::EpochDraw& draw) {
                              Indices order(static_cast<std::size_t>(draw.examples));
                              std::iota(order.rbegin(), order.rend(), std::int64_t{0});
                              return order;
                            }};
    CHECK(make_plan(4, 2, backwards).order(7) == Indices{3, 2, 1, 0});
  }

  TEST_CASE("sampler: an order that is none of the data set is refused") {
    const auto refused = [](const Indices& order, bool repeats, std::int64_t draws = 0) {
      const Sampler own{"mine", [order](const troupe::EpochDraw&) { return order; }, repeats,
                        draws};
      return refusal([&] { (void)make_plan(3, 2, own).order(0); });
    };
    CHECK(refused({2, 0, 1}, false).empty());
    CHECK(says(refused({2, 0}, false), "\"mine\" has returned 2 examples for an epoch of 3"));
    CHECK(says(refused({2, 0, 3}, false), "example 3 of 3"));
    CHECK(says(refused({2, 0, -1}, true), "example -1 of 3"));
    CHECK(says(refused({2, 0, 2}, false), "example 2 twice"));
    CHECK(refused({2, 0, 2}, true).empty());
    CHECK(refused({2, 0, 2, 2}, true, 4).empty());
    CHECK(says(refused({2, 0, 2}, true, 4), "3 examples for an epoch of 4"));
    CHECK(says(refused({2, 0, 1, 1}, false, 4), "does not repeat examples"));
    CHECK(says(refusal([] { (void)make_plan(3, 2, Sampler{"empty"}); }), "no order"));
  }

  TEST_CASE("sampler: weights and lengths that do not fit are refused") {
    using troupe::weighted;
    const auto weights = [](std::vector<double> given) {
      return refusal([&] { (void)weighted(std::move(given)); });
    };
    CHECK(says(weights({1, -1}), "weight 1"));
    CHECK(says(weights({1, std::numeric_limits<double>::quiet_NaN()}), "weight 1"));
    CHECK(says(weights({1e308, 1e308}), "weight 1"));
    CHECK(says(weights({0, 0}), "sum 0"));
    CHECK(says(weights({}), "sum 0"));
    CHECK(says(refusal([] { (void)weighted({1}, -1); }), "-1 draws"));
    CHECK(says(refusal([] {
                 (void)make_plan(3, 2, weighted({1, 2})).order(0);
               }),
               "2 weights, the data set has 3 examples"));
    CHECK(says(refusal([] {
                 (void)make_plan(3, 2, troupe::bucketed({1, 2, 3, 4})).order(0);
               }),
               "4 lengths, the data set has 3 examples"));
    CHECK(says(refusal([] { (void)troupe::bucketed({1}, 0); }), "0 batches"));
  }

  TEST_CASE("sampler: workers compare what an order is made of") {
    const auto signature = [](const Sampler& sampler) {
      return make_plan(4, 2, sampler).order_signature();
    };
    CHECK(signature(troupe::shuffled()) == "shuffled");
    CHECK(signature(troupe::weighted({1, 2, 3, 4})) == signature(troupe::weighted({1, 2, 3, 4})));
    CHECK(signature(troupe::weighted({1, 2, 3, 4}, 40)) !=
          signature(troupe::weighted({1, 2, 4, 4}, 40)));
    CHECK(signature(troupe::bucketed({1, 2, 3, 4})) != signature(troupe::bucketed({4, 3, 2, 1})));
  }
}

}  // namespace sampler_test
