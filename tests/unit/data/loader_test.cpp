#include "troupe/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/torch_prelude.h"
#include "tests/unit/data/numbers_dataset.h"
#include "troupe/core/error.h"
#include "troupe/data/shard_plan.h"

namespace loader_test {

namespace {

using troupe::DistributedBatch;
using troupe::DistributedDataset;
using troupe::ShardPlan;
using troupe::ShardPlanOptions;
using troupe::testing::NumbersDataset;

using Numbers = std::vector<std::int64_t>;

ShardPlan make_plan(std::int64_t examples, std::int64_t global_batch, int replicas,
                    const troupe::Sampler& sampler = troupe::shuffled()) {
  ShardPlanOptions options;
  options.examples = examples;
  options.global_batch = global_batch;
  options.replicas = replicas;
  options.sampler = sampler;
  return ShardPlan(options);
}

DistributedDataset make_data(const ShardPlan& plan, int first_replica, int local_replicas) {
  return {std::make_shared<NumbersDataset>(plan.options().examples), plan, first_replica,
          local_replicas};
}

Numbers numbers_of(const troupe::Batch& batch) {
  const at::Tensor field = batch.fields.at(0).contiguous();
  return Numbers(field.data_ptr<std::int64_t>(), field.data_ptr<std::int64_t>() + field.numel());
}

// One entry per step: what the replicas of this worker have, stand-ins empty.
std::vector<std::vector<Numbers>> read(troupe::Epoch epoch) {
  std::vector<std::vector<Numbers>> steps;
  for (const DistributedBatch& batch : epoch) {
    steps.emplace_back();
    for (const troupe::Batch& replica : batch.replicas) {
      steps.back().push_back(replica.stand_in ? Numbers{} : numbers_of(replica));
    }
  }
  return steps;
}

std::int64_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("loader: every example exactly once per epoch over all workers") {
    for (const int workers : {1, 2, 3, 4, 7}) {
      for (const std::int64_t examples : {1, 6, 64, 101}) {
        CAPTURE(workers);
        CAPTURE(examples);
        const ShardPlan plan = make_plan(examples, 10, workers);
        Numbers seen;
        for (int rank = 0; rank < workers; ++rank) {
          const auto steps = read(make_data(plan, rank, 1).epoch(2));
          CHECK(static_cast<std::int64_t>(steps.size()) == plan.steps_per_epoch());
          for (const auto& step : steps) seen.insert(seen.end(), step[0].begin(), step[0].end());
        }
        std::sort(seen.begin(), seen.end());
        CHECK(seen == make_plan(examples, 10, 1, troupe::sequential()).order(0));
      }
    }
  }

  TEST_CASE("loader: two workers of two replicas see what one worker of four sees") {
    const ShardPlan plan = make_plan(101, 10, 4);
    const auto whole = read(make_data(plan, 0, 4).epoch(1));
    const auto left = read(make_data(plan, 0, 2).epoch(1));
    const auto right = read(make_data(plan, 2, 2).epoch(1));
    REQUIRE(whole.size() == 11);
    for (std::size_t step = 0; step < whole.size(); ++step) {
      CHECK(whole[step] ==
            std::vector<Numbers>{left[step][0], left[step][1], right[step][0], right[step][1]});
    }
  }

  TEST_CASE("loader: a step says where it belongs and how many examples it has everywhere") {
    const DistributedDataset data = make_data(make_plan(6, 4, 2), 1, 1);
    CHECK(data.examples() == 6);
    CHECK(data.steps_per_epoch() == 2);
    CHECK(data.global_batch_size() == 4);
    std::int64_t step = 0;
    for (const DistributedBatch& batch : data.epoch(3)) {
      CHECK(batch.epoch == 3);
      CHECK(batch.step == step);
      CHECK(batch.global_examples == (step == 0 ? 4 : 2));
      REQUIRE(batch.replicas.size() == 1);
      CHECK(batch.replicas[0].global_examples == batch.global_examples);
      CHECK(batch.replicas[0].examples() == (step == 0 ? 2 : 1));
      ++step;
    }
    CHECK(step == 2);
  }

  TEST_CASE("loader: a replica without examples stands in with replica 0's") {
    const ShardPlan plan = make_plan(8, 4, 3);  // shares of 2, 2, 0
    const auto whole = read(make_data(plan, 0, 3).epoch(0));
    std::size_t step = 0;
    for (const DistributedBatch& batch : make_data(plan, 2, 1).epoch(0)) {
      CHECK(batch.replicas[0].stand_in);
      CHECK(batch.replicas[0].examples() == 0);
      CHECK(batch.global_examples == 4);
      CHECK(numbers_of(batch.replicas[0]) == whole[step++][0]);
    }
    CHECK(step == 2);
    for (const DistributedBatch& batch : make_data(plan, 0, 3).epoch(0)) {
      CHECK_FALSE(batch.replicas[0].stand_in);
      CHECK_FALSE(batch.replicas[1].stand_in);
      CHECK(batch.replicas[2].stand_in);
      batch.replicas[2].fields[0].zero_();  // what a stand-in does to its fields ...
      CHECK(numbers_of(batch.replicas[0]).size() == 2);
      CHECK(batch.replicas[0].fields[0].sum().item<std::int64_t>() > 0);  // ... stays its own
    }
  }

  TEST_CASE("loader: reading on from a position equals the tail of the whole epoch") {
    const DistributedDataset data = make_data(make_plan(101, 10, 2), 0, 2);
    const auto whole = read(data.epoch(5));
    for (std::int64_t first = 0; first <= data.steps_per_epoch(); ++first) {
      const auto tail = read(data.epoch(5, first));
      CHECK(tail == decltype(whole)(whole.begin() + first, whole.end()));
    }
    CHECK(whole != read(data.epoch(6)));
  }

  TEST_CASE("loader: no examples, no steps") {
    CHECK(read(make_data(make_plan(0, 4, 2), 0, 2).epoch(0)).empty());
  }

  TEST_CASE("loader: an epoch outlives the data set it came from, and can be moved") {
    auto data = std::make_unique<DistributedDataset>(make_data(make_plan(20, 2, 1), 0, 1));
    troupe::Epoch epoch = data->epoch(0);
    data.reset();
    troupe::Epoch moved = std::move(epoch);
    int steps = 0;
    while (moved.next() != nullptr) ++steps;
    CHECK(steps == 10);
  }

  TEST_CASE("loader: two epochs at once do not disturb each other") {
    const DistributedDataset data = make_data(make_plan(50, 5, 1), 0, 1);
    const auto expected = read(data.epoch(1));
    std::vector<std::vector<Numbers>> seen;
    for (const DistributedBatch& batch : data.epoch(1)) {
      seen.push_back({numbers_of(batch.replicas[0])});
      CHECK(read(data.epoch(2, 8)).size() == 2);
    }
    CHECK(seen == expected);
  }

  TEST_CASE("loader: the prefetch thread computes alone, without gradients") {
    at::set_num_threads(3);
    const at::Tensor large = torch::ones({200, 5000});  // enough for ATen to divide the work
    (void)large.exp();                                  // the training thread's pool has started
    const std::int64_t before = threads_of_process();
    std::int64_t most = 0;
    int threads_there = 0;
    bool gradients = true;
    const auto dataset = std::make_shared<NumbersDataset>(40, [&](const at::Tensor&) {
      (void)large.exp();
      (void)large.index_select(0, torch::arange(200));
      threads_there = at::get_num_threads();
      gradients = torch::GradMode::is_enabled();
      most = std::max(most, threads_of_process());
    });
    const DistributedDataset data(dataset, make_plan(40, 10, 1), 0, 1);
    const auto steps = read(data.epoch(0));
    CHECK(steps.size() == 4);
    CHECK(threads_there == 1);
    CHECK_FALSE(gradients);
    CHECK(before >= 3);                 // there is a pool, so a second one would show
    CHECK(most == before + 1);          // the prefetch thread and no pool of its own
    CHECK(at::get_num_threads() == 3);  // the training thread keeps its threads ...
    int later = 0;
    std::thread([&later] { later = at::get_num_threads(); }).join();
    CHECK(later == 3);  // ... and so do threads that start later
    at::set_num_threads(1);
  }

  TEST_CASE("loader: any number of threads reads the same steps, in order, from any step on") {
    const auto slow_at_times = [](const at::Tensor& indices) {
      if (indices[0].item<std::int64_t>() % 3 == 0) std::this_thread::yield();
    };
    const ShardPlan plan = make_plan(1001, 5, 3);
    const auto dataset = std::make_shared<NumbersDataset>(1001, slow_at_times);
    const auto expected = read(DistributedDataset(dataset, plan, 1, 2).epoch(3));
    for (const int threads : {0, 2, 4, 9}) {
      CAPTURE(threads);
      troupe::LoaderOptions options;
      options.threads = threads;
      const DistributedDataset data(dataset, plan, 1, 2, options);
      CHECK(read(data.epoch(3)) == expected);
      const auto rest = read(data.epoch(3, 150));
      CHECK(std::vector(expected.begin() + 150, expected.end()) == rest);
      CHECK(read(data.epoch(3, 201)).empty());
    }
  }

  TEST_CASE("loader: several threads call the data set at once") {
    constexpr int kThreads = 3;
    std::mutex mutex;
    std::condition_variable all_here;
    int here = 0;
    const auto meet = [&](const at::Tensor&) {
      std::unique_lock<std::mutex> lock(mutex);
      ++here;
      all_here.notify_all();
      CHECK(all_here.wait_for(lock, std::chrono::seconds(60), [&] { return here >= kThreads; }));
    };
    troupe::LoaderOptions options;
    options.threads = kThreads;
    options.prefetch_steps = 1;
    const DistributedDataset data(std::make_shared<NumbersDataset>(30, meet), make_plan(30, 10, 1),
                                  0, 1, options);
    CHECK(read(data.epoch(0)).size() == 3);
  }

  TEST_CASE("loader: the last step of an epoch says so") {
    for (const std::int64_t examples : {10, 11, 12}) {
      const DistributedDataset data = make_data(make_plan(examples, 4, 1), 0, 1);
      std::vector<bool> last;
      for (const DistributedBatch& batch : data.epoch(0)) {
        last.push_back(batch.last);
        CHECK(data.after(batch).at_end == batch.last);
      }
      CHECK(last == std::vector<bool>{false, false, true});
    }
  }

  TEST_CASE("loader: options out of range are refused") {
    const auto numbers = std::make_shared<NumbersDataset>(10);
    const ShardPlan plan = make_plan(10, 4, 2);
    using Data = DistributedDataset;
    CHECK_THROWS_AS(Data(nullptr, plan, 0, 1), troupe::ConfigError);
    CHECK_THROWS_AS(Data(std::make_shared<NumbersDataset>(11), plan, 0, 1), troupe::ConfigError);
    CHECK_THROWS_AS(Data(numbers, plan, -1, 1), troupe::ConfigError);
    CHECK_THROWS_AS(Data(numbers, plan, 1, 2), troupe::ConfigError);
    CHECK_THROWS_AS(Data(numbers, plan, 0, 0), troupe::ConfigError);
    troupe::LoaderOptions options;
    options.prefetch_steps = 0;
    CHECK_THROWS_AS(Data(numbers, plan, 0, 1, options), troupe::ConfigError);
    for (const int threads : {-1, troupe::kMostLoaderThreads + 1}) {
      options = {};
      options.threads = threads;
      CHECK_THROWS_AS(Data(numbers, plan, 0, 1, options), troupe::ConfigError);
    }
    const Data data(numbers, plan, 0, 2);
    CHECK_THROWS_AS((void)data.epoch(-1), troupe::ConfigError);
    CHECK_THROWS_AS((void)data.epoch(0, -1), troupe::ConfigError);
    CHECK_THROWS_AS((void)data.epoch(0, 4), troupe::ConfigError);
  }
}

}  // namespace loader_test
