#include "troupe/data/stream.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"
#include "troupe/data/loader.h"
#include "troupe/data/shard_plan.h"
#include "troupe/data/step_source.h"

namespace stream_test {

namespace {

using troupe::DataPosition;
using troupe::DistributedBatch;
using troupe::DistributedDataset;
using troupe::Example;
using troupe::StreamDataset;
using troupe::StreamOptions;

using Numbers = std::vector<std::int64_t>;

/// Blocks of 5, 0, 1, 2, 3, 4, 5, 0, ... examples, which are numbered from 0 on.
std::optional<std::vector<Example>> block_of(std::int64_t number, std::int64_t blocks) {
  if (number >= blocks) return std::nullopt;
  constexpr std::int64_t kRound = 5 + 0 + 1 + 2 + 3 + 4;
  const std::int64_t in_round = number % 6;
  std::int64_t first = number / 6 * kRound;
  if (in_round > 0) first += 5 + in_round * (in_round - 1) / 2 - (in_round - 1);
  const std::int64_t size = in_round == 0 ? 5 : in_round - 1;
  std::vector<Example> block;
  for (std::int64_t i = 0; i < size; ++i) block.push_back({torch::tensor(first + i)});
  return block;
}

std::shared_ptr<const StreamDataset> stream(std::int64_t blocks, StreamOptions options = {}) {
  return std::make_shared<StreamDataset>(
      [blocks](std::int64_t number) { return block_of(number, blocks); }, std::move(options));
}

StreamOptions window_of(std::int64_t window, std::int64_t blocks = 0) {
  StreamOptions options;
  options.window = window;
  options.blocks = blocks;
  return options;
}

DistributedDataset over(std::shared_ptr<const StreamDataset> dataset, int replicas = 1,
                        int first = 0, int local = 1, int threads = 1,
                        const troupe::Sampler& sampler = troupe::shuffled()) {
  troupe::ShardPlanOptions plan;
  plan.examples = troupe::kUnknownSize;
  plan.global_batch = 7;
  plan.replicas = replicas;
  plan.sampler = sampler;
  troupe::LoaderOptions options;
  options.threads = threads;
  return {std::move(dataset), troupe::ShardPlan(plan), first, local, options};
}

Numbers numbers_of(const troupe::Batch& batch) {
  if (batch.stand_in) return {};
  const at::Tensor& field = batch.fields.at(0);
  return {field.data_ptr<std::int64_t>(), field.data_ptr<std::int64_t>() + field.numel()};
}

/// By step, the examples of this worker's replicas.
std::vector<Numbers> read(troupe::Epoch epoch) {
  std::vector<Numbers> steps;
  for (const DistributedBatch& batch : epoch) {
    steps.emplace_back();
    for (const troupe::Batch& replica : batch.replicas) {
      const Numbers own = numbers_of(replica);
      steps.back().insert(steps.back().end(), own.begin(), own.end());
    }
  }
  return steps;
}

Numbers joined(const std::vector<Numbers>& steps) {
  Numbers all;
  for (const Numbers& step : steps) all.insert(all.end(), step.begin(), step.end());
  return all;
}

Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Numbers count_to(std::int64_t end) {
  Numbers numbers;
  for (std::int64_t i = 0; i < end; ++i) numbers.push_back(i);
  return numbers;
}

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
    return "";
  } catch (const troupe::Error& error) {
    return error.cause();
  }
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("stream: every example once an epoch, in windows, whatever divides what") {
    for (const auto& options : {window_of(1), window_of(4), window_of(100), window_of(4, 25)}) {
      const DistributedDataset data = over(stream(25, options));
      CHECK_FALSE(data.steps_per_epoch().has_value());
      CHECK(data.examples() == troupe::kUnknownSize);
      const auto steps = read(data.epoch(0));
      CHECK(sorted(joined(steps)) == count_to(65));
      CHECK(steps.size() == 10);  // nine of 7, one of 2
      CHECK(steps.back().size() == 2);
      CHECK(joined(steps) != count_to(65));
      CHECK(read(data.epoch(0)) == steps);
      CHECK(read(data.epoch(1)) != steps);
      CHECK(sorted(joined(read(data.epoch(1)))) == count_to(65));
    }
    CHECK(joined(read(over(stream(25), 1, 0, 1, 1, troupe::sequential()).epoch(4))) ==
          count_to(65));
  }

  TEST_CASE("stream: a short last step is left out where that is asked for, resumed too") {
    const auto without_rest = [](std::int64_t blocks, std::int64_t window) {
      troupe::ShardPlanOptions plan;
      plan.examples = troupe::kUnknownSize;
      plan.global_batch = 7;
      plan.drop_last = true;
      return DistributedDataset(stream(blocks, window_of(window)), troupe::ShardPlan(plan), 0, 1);
    };
    for (const std::int64_t blocks : {3, 5, 6, 8, 14}) {
      for (const std::int64_t window : {1, 2, 20}) {
        CAPTURE(blocks);
        CAPTURE(window);
        const auto whole = read(over(stream(blocks, window_of(window))).epoch(1));
        std::vector<Numbers> full;
        for (const Numbers& step : whole)
          if (step.size() == 7) full.push_back(step);
        const DistributedDataset data = without_rest(blocks, window);
        if (full.empty()) {
          CHECK_THROWS_WITH_AS((void)read(data.epoch(1)), doctest::Contains("--drop-last"),
                               troupe::DataError);
          continue;
        }
        std::vector<Numbers> steps;
        DataPosition place{1, 0};
        bool was_last = false;
        for (const DistributedBatch& batch : data.epoch(1)) {
          CHECK_FALSE(was_last);
          steps.push_back(numbers_of(batch.replicas.front()));
          was_last = batch.last;
          place = data.after(batch);
          const auto rest = read(data.epoch(place));
          CHECK(rest == std::vector<Numbers>(
                            full.begin() + static_cast<std::ptrdiff_t>(steps.size()), full.end()));
        }
        CHECK(steps == full);
        CHECK(was_last);
        CHECK(place.at_end);
      }
    }
  }

  TEST_CASE("stream: blocks that are counted come in another order each epoch") {
    const auto first = [](const StreamOptions& options, std::int64_t epoch) {
      return read(over(stream(600, options)).epoch(epoch)).front();
    };
    std::set<std::int64_t> hundreds;
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      hundreds.insert(first(window_of(2, 600), epoch).front() / 100);
      CHECK(first(window_of(2), epoch).front() < 100);
    }
    CHECK(hundreds.size() > 5);
  }

  TEST_CASE("stream: the order is the same for any number of workers and loader threads") {
    const auto dataset = stream(25, window_of(4, 25));
    const auto alone = read(over(dataset).epoch(3));
    for (const int workers : {1, 2, 3, 8}) {
      for (const int threads : {1, 4}) {
        std::vector<Numbers> together(alone.size());
        for (int worker = 0; worker < workers; ++worker) {
          const auto own = read(over(dataset, workers, worker, 1, threads).epoch(3));
          REQUIRE(own.size() == alone.size());
          for (std::size_t step = 0; step < own.size(); ++step) {
            together[step].insert(together[step].end(), own[step].begin(), own[step].end());
          }
        }
        CHECK(together == alone);
      }
    }
  }

  TEST_CASE("stream: an epoch continues at any position, and reads no block before it") {
    for (const auto& options : {window_of(1), window_of(4), window_of(4, 25), window_of(100)}) {
      std::set<std::int64_t> asked;
      const auto dataset = std::make_shared<StreamDataset>(
          [&](std::int64_t number) {
            asked.insert(number);
            return block_of(number, 25);
          },
          options);
      for (const int threads : {1, 3}) {
        const DistributedDataset data = over(dataset, 1, 0, 1, threads);
        const auto expected = read(data.epoch(2));
        std::vector<DataPosition> positions{{2, 0}};
        for (const auto& batch : data.epoch(2)) positions.push_back(data.after(batch));
        REQUIRE(positions.size() == expected.size() + 1);
        for (std::size_t at = 0; at < positions.size(); ++at) {
          CHECK(positions[at].at_end == (at == expected.size()));
          asked.clear();
          const auto rest = read(data.epoch(positions[at]));
          CHECK(std::vector(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end()) ==
                rest);
          if (options.blocks == 0 && !asked.empty()) {
            CHECK(*asked.begin() == positions[at].place.block);
          }
          if (options.window == 4 && at == 8) CHECK(asked.size() < 15);
        }
      }
    }
  }

  TEST_CASE("stream: a step is read again for other replicas") {
    const DistributedDataset data = over(stream(25, window_of(4, 25)), 3, 0, 1);
    const auto others = read(over(stream(25, window_of(4, 25)), 3, 1, 2).epoch(1));
    for (const auto& batch : data.epoch(1)) {
      const DistributedBatch again = troupe::read_again(batch, {1, 2});
      Numbers numbers = numbers_of(again.replicas[0]);
      const Numbers more = numbers_of(again.replicas[1]);
      numbers.insert(numbers.end(), more.begin(), more.end());
      CHECK(numbers == others[static_cast<std::size_t>(batch.step)]);
      CHECK(again.last == batch.last);
    }
  }

  TEST_CASE("stream: a replica without an example borrows replica 0's") {
    const auto data = over(stream(25), 4, 0, 4);  // the last step has two examples
    for (const auto& batch : data.epoch(0)) {
      if (!batch.last) continue;
      CHECK(batch.global_examples == 2);
      CHECK_FALSE(batch.replicas[1].stand_in);
      CHECK(batch.replicas[2].stand_in);
      CHECK(batch.replicas[3].fields[0].equal(batch.replicas[0].fields[0]));
    }
  }

  TEST_CASE("stream: only a window of it is in memory") {
    const auto living = std::make_shared<int>(0);
    int most = 0;
    // A tensor that counts itself.
    const auto counted = [&](std::int64_t number) -> std::optional<std::vector<Example>> {
      if (number == 500) return std::nullopt;
      std::vector<Example> block;
      for (int i = 0; i < 10; ++i) {
        ++*living;
        auto* const value = new std::int64_t(number);
        block.push_back({torch::from_blob(
            value, {1},
            [value, living](void*) {
              delete value;
              --*living;
            },
            torch::kLong)});
      }
      most = std::max(most, *living);
      return block;
    };
    const auto data = over(std::make_shared<StreamDataset>(counted, window_of(4)));
    CHECK(joined(read(data.epoch(0))).size() == 5000);
    CHECK(*living == 0);
    CHECK(most <= 4 * 10 + 2 * 7);  // a window, and what was drawn of the one before
  }

  TEST_CASE("stream: loader threads keep nothing of the steps that they have gathered") {
    // Blocks of which a step is, and which are in memory as long as any example of them is.
    const auto living = std::make_shared<std::atomic<int>>(0);
    const auto counted = [&](std::int64_t number) -> std::optional<std::vector<Example>> {
      if (number == 50) return std::nullopt;
      ++*living;
      auto* const values = new std::int64_t[7]();
      const at::Tensor rows = torch::from_blob(
          values, {7},
          [values, living](void*) {
            delete[] values;
            --*living;
          },
          torch::kLong);
      std::vector<Example> block;
      for (int i = 0; i < 7; ++i) block.push_back({rows[i]});
      return block;
    };
    const auto data =
        over(std::make_shared<StreamDataset>(counted, window_of(1)), 1, 0, 1, /*threads=*/4);
    for (const DistributedBatch& batch : data.epoch(0)) {
      // The next window; all steps that there is room for are gathered.
      CHECK(troupe::testing::eventually([&] { return *living <= 1; }));
      if (batch.step == 12) break;
    }
    CHECK(*living == 0);
  }

  TEST_CASE("stream: examples are transformed for the replica that gets them") {
    StreamOptions options = window_of(4);
    std::atomic<int> calls{0};
    options.transform = [&calls](Example example, troupe::ExampleRandom& random) {
      ++calls;
      return Example{example[0] * 0 + static_cast<std::int64_t>(random.below(1 << 20))};
    };
    const auto dataset = stream(25, options);
    const auto alone = read(over(dataset).epoch(0));
    CHECK(calls.exchange(0) == 65);
    const auto half = read(over(dataset, 2, 1, 1, 3).epoch(0));
    CHECK(calls.load() == 27 + 1);  // 3 of each 7, 1 of 2
    for (std::size_t step = 0; step < half.size(); ++step) {
      const Numbers& all = alone[step];
      CHECK(std::equal(half[step].rbegin(), half[step].rend(), all.rbegin()));
    }
  }

  TEST_CASE("stream: examples by their place in it") {
    const auto dataset = stream(25);
    const at::Tensor wanted = torch::tensor({std::int64_t{64}, std::int64_t{0}, std::int64_t{7}});
    CHECK(dataset->get(wanted).at(0).equal(wanted));
    CHECK(says(refusal([&] { (void)dataset->get(torch::tensor({std::int64_t{65}})); }),
               "Example 65 was asked for, of a stream of 65"));
    CHECK(troupe::first_of(dataset, 10)->size() == 1);
  }

  TEST_CASE("stream: what cannot be read is refused") {
    CHECK(says(refusal([] { StreamDataset(nullptr); }), "null function"));
    CHECK(says(refusal([] { (void)stream(3, window_of(0)); }), "window of 0"));
    CHECK(says(refusal([] { (void)stream(3, window_of(1, -1)); }), "-1 blocks"));
    CHECK(says(refusal([] { (void)read(over(stream(3, window_of(2, 4))).epoch(0)); }),
               "is missing, which has 4 blocks"));
    CHECK(says(refusal([] { (void)read(over(stream(0)).epoch(0)); }), "has no examples"));
    CHECK(says(refusal([] {
                 (void)over(stream(3), 1, 0, 1, 1, troupe::weighted({1, 1}));
               }),
               "\"weighted\" is given for a stream"));
    CHECK(says(refusal([] { (void)read(over(stream(3)).epoch({0, 2})); }), "ended before step 2"));
    const auto failing = std::make_shared<StreamDataset>(
        [](std::int64_t number) -> std::optional<std::vector<Example>> {
          if (number == 5) throw troupe::DataError("block 5 is torn.", "mend it.");
          return block_of(number, 25);
        },
        window_of(2));
    for (const int threads : {1, 4}) {
      std::size_t steps = 0;
      CHECK(refusal([&] {
              for (const auto& batch : over(failing, 1, 0, 1, threads).epoch(0)) {
                steps += batch.replicas.size();
              }
            }) == "block 5 is torn.");
      CHECK(steps == 1);  // seven of the eight examples of the blocks before
    }
  }

  TEST_CASE("stream: workers compare how it is read") {
    CHECK(over(stream(25, window_of(4))).order_signature() !=
          over(stream(25, window_of(5))).order_signature());
    CHECK(over(stream(25, window_of(4))).order_signature() !=
          over(stream(25, window_of(4, 25))).order_signature());
  }
}

}  // namespace stream_test
