// Who waits for whom: the shares that a run reports, on every strategy whose workers take each step
// together.
#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "tests/unit/train/fake_group.h"
#include "troupe/strategies/wait_meter.h"
#include "troupe/train/leadership.h"

namespace waiting_test {

using namespace troupe::testing;  // NOLINT

namespace {

/// Two workers, of which the second is slow: its steps begin after those of the first, and take
/// longer by `kLonger`.
class PacedHooks final : public TinyHooks {
 public:
  PacedHooks(int rank, std::atomic<int>& begun_by_first)
      : TinyHooks(24), is_first_(rank == 0), begun_by_first_(begun_by_first) {}
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    if (is_first_) {
      ++begun_by_first_;
    } else {
      const int mine = ++begun_;
      CHECK(eventually([&] { return begun_by_first_ >= mine; }));
      take_time(kLonger);
    }
    return TinyHooks::train_step(replica, batch);
  }

 private:
  static constexpr std::chrono::milliseconds kLonger{200};
  bool is_first_;
  std::atomic<int>& begun_by_first_;
  mutable std::atomic<int> begun_ = 0;
};

/// What each worker reports after five steps.
std::vector<troupe::LossValues> waiting_of_two(const ChangeOptions& change) {
  std::atomic<int> begun_by_first = 0;
  return on_workers(
      2,
      [&](troupe::Strategy& strategy) {
        const PacedHooks hooks(strategy.rank(), begun_by_first);
        const troupe::TrainOptions options = quiet_options(5, 8);
        auto state = strategy.create_state(hooks, options.seed);
        const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
        auto history = troupe::train(strategy, hooks, state, data, options);
        strategy.close();
        return history.waiting;
      },
      change);
}

/// A group whose workers come and go; it notes how long its messages are.
class ChangingGroup final : public FakeGroup {
 public:
  explicit ChangingGroup(int workers) : FakeGroup(view_of(workers)) {}
  void become(int workers) { FakeGroup::become(view_of(workers)); }
  void sum(troupe::Span<double> values) override { lengths.push_back(values.size()); }
  std::vector<std::size_t> lengths;

 private:
  static troupe::GroupView view_of(int workers) {
    troupe::GroupView view = view_of_group(workers);
    view.hosting = {4, {0, 4}, troupe::TreeCut(4)};
    return view;
  }
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("waiting: rounds of an elastic group meet with one length of message") {
    // A worker that has completed a step may meet those that complete it in the next round.
    ChangingGroup group(3);
    troupe::Outbox outbox(troupe::Outbox::Role::leader);
    troupe::detail::Leadership leadership(group, outbox, {});
    const auto nothing = [] { return troupe::detail::StepFlags(); };
    for (const int workers : {3, 3, 2, 2, 4, 4}) {
      group.become(workers);
      (void)leadership.agree(nothing);
    }
    CHECK(std::set<std::size_t>(group.lengths.begin(), group.lengths.end()).size() == 1);
    group.become(2);
    (void)leadership.agree(nothing);
    CHECK(leadership.waiting().empty());  // of these two nothing is known yet
  }

  TEST_CASE("waiting: the fast worker waits for the slow one, whatever brings the values") {
    using troupe::StrategyOptions;
    const std::vector<std::pair<const char*, ChangeOptions>> ways = {
        {"native", nullptr},
        {"overlap",
         [](StrategyOptions& options) {
           options.buckets.overlap = troupe::Overlap::on;
           options.buckets.first_bytes = options.buckets.bytes = 4;
         }},
        {"bf16",
         [](StrategyOptions& options) { options.compress = troupe::Compression::bfloat16; }},
        {"sharded", [](StrategyOptions& options) { options.shard_optimizer = true; }},
        {"virtual", [](StrategyOptions& options) { options.virtual_replicas = 4; }},
        {"2 x 2", [](StrategyOptions& options) {
           options.devices = {"cpu", "cpu"};
         }}};
    for (const auto& [name, change] : ways) {
      CAPTURE(name);
      const auto waiting = waiting_of_two(change);
      for (const troupe::LossValues& shares : waiting) {
        REQUIRE(shares.size() == 2);
        CHECK(shares[0].first == "worker/0");
        CHECK(shares[0].second > 0.3);
        CHECK(shares[1].second < shares[0].second / 2);
      }
    }
  }

  TEST_CASE("waiting: a run of one process reports none") {
    const TinyHooks hooks(24);
    const auto strategy = troupe::make_one_device({});
    auto state = strategy->create_state(hooks, 1);
    const troupe::TrainOptions options = quiet_options(3);
    const auto data = strategy->distribute(hooks.create_datasets(), options.batches());
    CHECK(troupe::train(*strategy, hooks, state, data, options).waiting.empty());
  }

  TEST_CASE("waiting: what another thread waits for is not the worker's, and what throws counts") {
    troupe::detail::WaitMeter meter;
    std::thread([&] { meter.during([] { take_time(std::chrono::milliseconds(20)); }); }).join();
    CHECK(meter.seconds() == 0);
    CHECK_THROWS_AS(meter.during([] {
      take_time(std::chrono::milliseconds(20));
      throw std::runtime_error("lost");
    }),
                    std::runtime_error);
    CHECK(meter.seconds() >= 0.02);
  }
}

}  // namespace waiting_test
