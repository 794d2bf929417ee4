#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/torch_prelude.h"
#include "tests/unit/data/numbers_dataset.h"
#include "troupe/core/failure.h"
#include "troupe/data/loader.h"
#include "troupe/data/shard_plan.h"

namespace loader_failure_test {

namespace {

using troupe::DistributedDataset;
using troupe::ShardPlan;
using troupe::testing::NumbersDataset;

constexpr std::chrono::seconds kPatience{60};  // after which a test gives up waiting for an event

struct DiskBroke : std::runtime_error {
  using std::runtime_error::runtime_error;
};

ShardPlan make_plan(std::int64_t examples, std::int64_t global_batch) {
  troupe::ShardPlanOptions options;
  options.examples = examples;
  options.global_batch = global_batch;
  options.sampler = troupe::sequential();
  return ShardPlan(options);
}

class WrongLength final : public troupe::Dataset {
 public:
  explicit WrongLength(std::vector<at::Tensor> result) : result_(std::move(result)) {}
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& /*indices*/) const override {
    return result_;
  }

 private:
  std::vector<at::Tensor> result_;
};

// Sends what this process writes to stderr into a pipe, as long as it lives.
class StderrPipe {
 public:
  StderrPipe() : saved_(::dup(STDERR_FILENO)) {
    int ends[2] = {-1, -1};
    if (saved_ < 0 || ::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    read_end_ = ends[0];
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  ~StderrPipe() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(read_end_);
  }
  StderrPipe(const StderrPipe&) = delete;
  StderrPipe& operator=(const StderrPipe&) = delete;

  // The first line that holds `part`; empty if none comes in time. Any thread.
  [[nodiscard]] std::string wait_for_line(const std::string& part) const {
    std::string line;
    pollfd readable = {read_end_, POLLIN, 0};
    const int limit = static_cast<int>(std::chrono::milliseconds(kPatience).count());
    while (::poll(&readable, 1, limit) == 1) {
      char c = 0;
      if (::read(read_end_, &c, 1) != 1) break;
      if (c != '\n') {
        line += c;
      } else if (line.find(part) != std::string::npos) {
        return line;
      } else {
        line.clear();
      }
    }
    return "";
  }

 private:
  int saved_;
  int read_end_ = -1;
};

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("loader: of several threads that fail, the earliest step's exception leaves last") {
    for (int repetition = 0; repetition < 20; ++repetition) {
      const auto fails = [](const at::Tensor& indices) {
        const auto first = indices[0].item<std::int64_t>();
        if (first >= 50) throw DiskBroke(std::to_string(first));
      };
      troupe::LoaderOptions options;
      options.threads = 4;
      const DistributedDataset data(std::make_shared<NumbersDataset>(1000, fails),
                                    make_plan(1000, 10), 0, 1, options);
      int steps = 0;
      std::string message;
      try {
        for (const auto& batch : data.epoch(0)) {
          CHECK(batch.step == steps);
          ++steps;
        }
      } catch (const troupe::HookError& error) {
        message = error.what();
      }
      CHECK(steps == 5);
      CHECK(message.find("reading step 5 of epoch 0, examples 50, 51, ") == 0);
    }
  }

  TEST_CASE("loader: what get() throws comes out with its examples, after the steps before it") {
    const auto dataset = std::make_shared<NumbersDataset>(40, [](const at::Tensor& indices) {
      if (indices[0].item<std::int64_t>() == 20) throw DiskBroke("sector 20");
    });
    const DistributedDataset data(dataset, make_plan(40, 10), 0, 1);
    int steps = 0;
    const auto read_all = [&] {
      for (const auto& batch : data.epoch(0)) {
        CHECK(batch.step == steps);
        ++steps;
      }
    };
    CHECK_THROWS_WITH_AS(
        read_all(),
        doctest::Contains("reading step 2 of epoch 0, examples 20, 21, 22, 23, 24, "
                          "25, 26, 27, ... failed: sector 20 ("),
        troupe::HookError);
    CHECK(steps == 2);
  }

  TEST_CASE("loader: an exception in the first get() comes out of begin(), a later call again") {
    const auto dataset =
        std::make_shared<NumbersDataset>(40, [](const at::Tensor&) { throw DiskBroke("at once"); });
    const DistributedDataset data(dataset, make_plan(40, 10), 0, 1);
    troupe::Epoch epoch = data.epoch(0);
    CHECK_THROWS_AS((void)epoch.begin(), troupe::HookError);
    // Read a second time: refused, not an empty epoch.
    CHECK_THROWS_AS((void)epoch.begin(), troupe::ConfigError);
    { const troupe::Epoch never_read = data.epoch(0); }  // the exception goes with it
  }

  TEST_CASE("loader: fields of the wrong length are refused with both numbers") {
    const std::vector<std::vector<at::Tensor>> wrong = {
        {}, {at::Tensor()}, {torch::tensor(1)}, {torch::zeros({5, 2}), torch::zeros(4)}};
    for (const auto& result : wrong) {
      const DistributedDataset data(std::make_shared<WrongLength>(result), make_plan(10, 5), 0, 1);
      troupe::Epoch epoch = data.epoch(0);
      CHECK_THROWS_AS((void)epoch.begin(), troupe::DataError);
    }
    const DistributedDataset data(std::make_shared<WrongLength>(wrong.back()), make_plan(10, 5), 0,
                                  1);
    troupe::Epoch epoch = data.epoch(0);
    CHECK_THROWS_WITH_AS((void)epoch.begin(),
                         doctest::Contains("asked for 5 examples, field 1 of its result has 4."),
                         troupe::DataError);
  }

  TEST_CASE("loader: no more than the agreed steps are read ahead") {
    constexpr std::int64_t kSteps = 2000;
    std::atomic<std::int64_t> taken{0};  // counted before a step is taken: never too low
    std::int64_t gets = 0;               // prefetch thread's
    std::int64_t farthest = 0;           // prefetch thread's: how far get() was ahead
    std::promise<void> ahead;
    const auto dataset = std::make_shared<NumbersDataset>(kSteps, [&](const at::Tensor&) {
      if (++gets == 3) ahead.set_value();
      farthest = std::max(farthest, gets - taken);
    });
    troupe::LoaderOptions options;
    options.prefetch_steps = 3;
    const DistributedDataset data(dataset, make_plan(kSteps, 1), 0, 1, options);
    troupe::Epoch epoch = data.epoch(0);
    // It does read ahead, with nobody asking for a step ...
    REQUIRE(ahead.get_future().wait_for(kPatience) == std::future_status::ready);
    // ... but never farther than agreed, although the training thread is the slower one.
    ++taken;
    for (auto step = epoch.begin(); step != epoch.end(); ++step) {
      for (int i = 0; i < 10; ++i) std::this_thread::yield();
      ++taken;
    }
    CHECK(gets == kSteps);
    CHECK(farthest == 3);
  }

  TEST_CASE("loader: an epoch left early stops after the get() it is in") {
    std::atomic<int> gets{0};
    std::promise<void> entered;
    std::promise<void> leave;
    const auto dataset = std::make_shared<NumbersDataset>(1'000'000, [&](const at::Tensor&) {
      if (++gets == 2) {
        entered.set_value();
        leave.get_future().wait_for(kPatience);
      }
    });
    const DistributedDataset data(dataset, make_plan(1'000'000, 1), 0, 1);
    auto epoch = std::make_unique<troupe::Epoch>(data.epoch(0));
    REQUIRE(entered.get_future().wait_for(kPatience) == std::future_status::ready);
    std::thread destroyer([&epoch] { epoch.reset(); });
    leave.set_value();
    destroyer.join();
    CHECK(gets <= 3);  // at most the two that fit into the queue, and one more
  }

  TEST_CASE("loader: breaking out of the loop ends the epoch") {
    const DistributedDataset data(std::make_shared<NumbersDataset>(1'000'000),
                                  make_plan(1'000'000, 1), 0, 1);
    for (int i = 0; i < 20; ++i) {
      for (const auto& batch : data.epoch(i)) {
        if (batch.step == 1) break;
      }
      const troupe::Epoch not_even_begun = data.epoch(i);
    }
  }

  TEST_CASE("loader: a slow data set is named in a warning") {
    const StderrPipe log;
    std::string warning;
    const auto dataset = std::make_shared<NumbersDataset>(10, [&](const at::Tensor& indices) {
      // Slow until the warning is there.
      if (indices[0].item<std::int64_t>() == 5) warning = log.wait_for_line("Dataset::get()");
    });
    troupe::LoaderOptions options;
    options.warn_after = std::chrono::milliseconds(20);
    const DistributedDataset data(dataset, make_plan(10, 5), 0, 1, options);
    int steps = 0;
    for (const auto& batch : data.epoch(3)) steps += batch.replicas[0].stand_in ? 0 : 1;
    CHECK(steps == 2);
    CHECK(warning.find("Training has waited") != std::string::npos);
    CHECK(warning.find("epoch 3") != std::string::npos);
  }
}

}  // namespace loader_failure_test
