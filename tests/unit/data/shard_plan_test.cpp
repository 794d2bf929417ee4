#include "troupe/data/shard_plan.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"

namespace shard_plan_test {

namespace {

using troupe::Sampler;
using troupe::sequential;
using troupe::ShardPlan;
using troupe::ShardPlanOptions;
using troupe::shuffled;

using Indices = std::vector<std::int64_t>;

ShardPlan make_plan(std::int64_t examples, std::int64_t global_batch, int replicas,
                    const Sampler& sampler = sequential(), std::uint64_t seed = 1) {
  ShardPlanOptions options;
  options.examples = examples;
  options.global_batch = global_batch;
  options.replicas = replicas;
  options.sampler = sampler;
  options.seed = seed;
  return ShardPlan(options);
}

// What `replica` reads in `step` of `epoch`.
Indices examples_of(const ShardPlan& plan, std::int64_t step, int replica, std::int64_t epoch = 0) {
  const Indices order = plan.order(epoch);
  const troupe::Share share = plan.share(step, replica);
  return Indices(order.begin() + share.offset, order.begin() + share.offset + share.count);
}

// The cause of the ConfigError that `options` give; empty if they give none.
std::string refusal(const ShardPlanOptions& options) {
  try {
    const ShardPlan plan(options);
    return "";
  } catch (const troupe::ConfigError& error) {
    return error.cause();
  }
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("shard_plan: six examples in batches of four over two replicas") {
    const ShardPlan plan = make_plan(6, 4, 2);
    CHECK(plan.steps_per_epoch() == 2);
    CHECK(plan.global_examples(0) == 4);
    CHECK(plan.global_examples(1) == 2);
    CHECK(examples_of(plan, 0, 0) == Indices{0, 1});
    CHECK(examples_of(plan, 0, 1) == Indices{2, 3});
    CHECK(examples_of(plan, 1, 0) == Indices{4});
    CHECK(examples_of(plan, 1, 1) == Indices{5});
  }

  TEST_CASE("shard_plan: four examples over five replicas, the last has none") {
    const ShardPlan plan = make_plan(4, 4, 5);
    CHECK(plan.steps_per_epoch() == 1);
    for (int replica = 0; replica < 4; ++replica) {
      CHECK(examples_of(plan, 0, replica) == Indices{replica});
    }
    CHECK(examples_of(plan, 0, 4).empty());
  }

  TEST_CASE("shard_plan: eight examples in batches of four over three replicas") {
    const ShardPlan plan = make_plan(8, 4, 3);
    CHECK(plan.steps_per_epoch() == 2);
    for (std::int64_t step = 0; step < 2; ++step) {
      CHECK(examples_of(plan, step, 0) == Indices{4 * step, 4 * step + 1});
      CHECK(examples_of(plan, step, 1) == Indices{4 * step + 2, 4 * step + 3});
      CHECK(examples_of(plan, step, 2).empty());
    }
  }

  TEST_CASE("shard_plan: every example exactly once per epoch, whatever divides what") {
    for (const int replicas : {1, 2, 3, 4, 7}) {
      for (const std::int64_t examples : {0, 1, 5, 64, 65, 130, 1001}) {
        for (const std::int64_t batch : {1, 3, 64, 2000}) {
          const ShardPlan plan = make_plan(examples, batch, replicas, shuffled());
          Indices seen;
          for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
            std::int64_t in_step = 0;
            for (int replica = 0; replica < replicas; ++replica) {
              const Indices share = examples_of(plan, step, replica, 3);
              in_step += static_cast<std::int64_t>(share.size());
              seen.insert(seen.end(), share.begin(), share.end());
            }
            CHECK(in_step == plan.global_examples(step));
            CHECK(plan.share(step, 0).count > 0);
          }
          CAPTURE(replicas);
          CAPTURE(examples);
          CAPTURE(batch);
          // Shares of a step follow each other in the order, so this is the order itself ...
          CHECK(seen == plan.order(3));
          // ... which is a permutation.
          std::sort(seen.begin(), seen.end());
          CHECK(seen == make_plan(examples, batch, replicas).order(0));
        }
      }
    }
  }

  TEST_CASE("shard_plan: the order depends on seed and epoch, not on replicas or batch") {
    const Indices order = make_plan(1000, 64, 1, shuffled()).order(5);
    CHECK(make_plan(1000, 64, 7, shuffled()).order(5) == order);
    CHECK(make_plan(1000, 10, 2, shuffled()).order(5) == order);
    CHECK(make_plan(1000, 64, 1, shuffled()).order(6) != order);
    CHECK(make_plan(1000, 64, 1, shuffled(), 2).order(5) != order);
    // Not the same orders one epoch later.
    CHECK(make_plan(1000, 64, 1, shuffled(), 2).order(4) != order);
  }

  TEST_CASE("shard_plan: without shuffling every epoch is 0, 1, 2, ...") {
    CHECK(make_plan(4, 2, 1).order(0) == Indices{0, 1, 2, 3});
    CHECK(make_plan(4, 2, 1).order(9) == Indices{0, 1, 2, 3});
  }

  TEST_CASE("shard_plan: the order is the same on every machine") {
    CHECK(make_plan(10, 2, 1, shuffled(), 1).order(0) == Indices{5, 0, 8, 7, 3, 1, 9, 6, 4, 2});
    CHECK(make_plan(10, 2, 1, shuffled(), 1).order(1) == Indices{6, 2, 8, 7, 4, 5, 9, 3, 0, 1});
    CHECK(make_plan(10, 2, 1, shuffled(), 12345678901234567890u).order(7) ==
          Indices{7, 4, 0, 8, 3, 1, 2, 5, 6, 9});
  }

  TEST_CASE("shard_plan: each example comes first about equally often") {
    const ShardPlan plan = make_plan(5, 2, 1, shuffled());
    std::vector<int> first(5);
    for (std::int64_t epoch = 0; epoch < 5000; ++epoch) {
      ++first[static_cast<std::size_t>(plan.order(epoch)[0])];
    }
    // Binomial: standard deviation 28; the sequence is fixed, so this is no matter of chance.
    for (const int count : first) CHECK(std::abs(count - 1000) < 112);
  }

  TEST_CASE("shard_plan: numbers near the limit do not overflow") {
    constexpr std::int64_t kHuge = INT64_MAX;
    const ShardPlan plan = make_plan(kHuge, kHuge - 1, 1'000'000'000);
    CHECK(plan.steps_per_epoch() == 2);
    CHECK(plan.global_examples(0) == kHuge - 1);
    CHECK(plan.global_examples(1) == 1);
    std::int64_t last_end = 0;
    for (const int replica : {0, 1, 999'999'998, 999'999'999}) {
      const troupe::Share share = plan.share(0, replica);
      CHECK(share.offset >= last_end);
      last_end = share.offset + share.count;
    }
    CHECK(last_end == kHuge - 1);
    CHECK(plan.share(1, 999'999'999).count == 0);
  }

  TEST_CASE("shard_plan: a short last batch is left out where that is asked for") {
    for (const std::int64_t examples : {0, 3, 4, 5, 8, 11, 12}) {
      for (const std::int64_t batches : {1, 2}) {  // of a step, where replicas make updates apart
        ShardPlanOptions options;
        options.examples = examples;
        options.global_batch = 4 * batches;
        options.batches = batches;
        options.replicas = 2;
        options.drop_last = true;
        const ShardPlan plan(options);
        CAPTURE(examples);
        CAPTURE(batches);
        const std::int64_t read = examples / 4 * 4;
        CHECK(plan.epoch_examples() == read);
        CHECK(plan.order(3).size() == static_cast<std::size_t>(read));
        CHECK(*plan.steps_per_epoch() == (read + 4 * batches - 1) / (4 * batches));
        std::int64_t total = 0;
        for (std::int64_t step = 0; step < *plan.steps_per_epoch(); ++step) {
          total += plan.global_examples(step);
          CHECK(plan.global_examples(step) % 4 == 0);
        }
        CHECK(total == read);
        // What is left out is another one in another epoch.
        options.drop_last = false;
        const Indices whole = ShardPlan(options).order(3);
        CHECK(Indices(whole.begin(), whole.begin() + read) == plan.order(3));
      }
    }
  }

  TEST_CASE("shard_plan: the smallest share of an epoch, and the smallest part of one") {
    const auto smallest = [](std::int64_t examples, std::int64_t batch, int replicas,
                             std::int64_t parts = 1, bool drop_last = false) {
      ShardPlanOptions options;
      options.examples = examples;
      options.global_batch = batch;
      options.replicas = replicas;
      options.drop_last = drop_last;
      return ShardPlan(options).smallest_part(parts);
    };
    CHECK(smallest(128, 64, 1) == 64);
    CHECK(smallest(129, 64, 1) == 1);  // the rest of the epoch
    CHECK(smallest(129, 64, 1, 1, true) == 64);
    CHECK(smallest(130, 64, 2) == 1);   // of two
    CHECK(smallest(12, 7, 3) == 1);     // 3, 3, 1 of a whole batch
    CHECK(smallest(12, 6, 2, 3) == 1);  // parts of 3 examples
    CHECK(smallest(12, 6, 2, 5) == 1);  // no part has none
    CHECK(smallest(3, 64, 1) == 3);
    CHECK_FALSE(smallest(-1, 64, 2).has_value());
    CHECK(smallest(-1, 64, 2, 1, true) == 32);
  }

  TEST_CASE("shard_plan: options out of range are refused by name") {
    ShardPlanOptions options;
    options.examples = 10;
    CHECK(refusal(options).empty());
    options.global_batch = 0;
    CHECK(refusal(options).find("--batch-size is 0") != std::string::npos);
    options.global_batch = 1;
    options.replicas = 0;
    CHECK(refusal(options).find("0 replicas") != std::string::npos);
    options.replicas = 1;
    options.examples = -2;
    CHECK(refusal(options).find("-2 examples") != std::string::npos);
  }

  TEST_CASE("shard_plan: a step or replica that is not there is our bug") {
    const ShardPlan plan = make_plan(6, 4, 2);
    CHECK_THROWS_AS((void)plan.share(2, 0), troupe::InternalError);
    CHECK_THROWS_AS((void)plan.share(-1, 0), troupe::InternalError);
    CHECK_THROWS_AS((void)plan.share(0, 2), troupe::InternalError);
    CHECK_THROWS_AS((void)plan.order(-1), troupe::InternalError);
  }
}

}  // namespace shard_plan_test
