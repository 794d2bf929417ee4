// Rows of all replicas: the same bits everywhere, whatever the type; gradients to whoever made
// them; what has no such rows says so.
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/kinds/one_process.h"

namespace all_gather_test {

using namespace troupe;           // NOLINT: this file's subject
using namespace troupe::testing;  // NOLINT: a test

namespace {

/// Does `look` in train_step, and then what TinyHooks do: batches of 4, 4 and 2 of 10 examples.
class Looking : public TinyHooks {
 public:
  using Look = std::function<void(Replica& replica, const Batch& batch)>;
  explicit Looking(Look look) : look_(std::move(look)) {}
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    look_(replica, batch);
    return TinyHooks::train_step(replica, batch);
  }

 private:
  Look look_;
};

void train_steps(Strategy& strategy, const Hooks& hooks, std::int64_t batch_size = 4) {
  auto state = strategy.create_state(hooks, 1);
  (void)take_steps(strategy, hooks, state, batch_size);
  strategy.close();
}

/// Alone, mirrored, and on workers.
void train_everywhere(const Hooks& hooks) {
  train_steps(*make_one_device({}), hooks);
  for (const int replicas : {2, 3}) train_steps(*make_mirrored(mirrored_options(replicas)), hooks);
  for (const int replicas : {1, 2}) {
    run_workers(
        3, [&](int, Strategy& strategy) { train_steps(strategy, hooks); },
        [&](StrategyOptions& options) { options.replicas = replicas; });
  }
}

/// Bits, so that -0 is not 0 and a NaN is itself.
bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

/// What replica `index` gives, of each type: two rows of extreme values.
std::vector<at::Tensor> extremes(int index) {
  using Limits = std::numeric_limits<std::int64_t>;
  using Doubles = std::numeric_limits<double>;
  const at::Tensor integers = torch::tensor({{Limits::min() + index, Limits::max() - index},
                                             {std::int64_t{-1} - index, std::int64_t{1} << 32}});
  const at::Tensor reals =
      torch::tensor({{-0.0, Doubles::denorm_min()}, {-Doubles::infinity(), 0.1 + index}});
  return {integers,
          integers.to(torch::kInt32),
          integers.to(torch::kInt8),
          torch::tensor({{250 - index, 0}, {255, 1}}, torch::kUInt8),
          torch::tensor({{index % 2 == 0, true}, {false, true}}, torch::kBool),
          reals,
          reals.to(torch::kFloat32),
          reals.to(torch::kFloat16),
          reals.to(torch::kBFloat16),
          torch::full({2, 1, 0}, 1.0)};
}

void check_refused(const Looking::Look& look, const StrategyOptions& options, const char* why) {
  CHECK_THROWS_WITH_AS(train_steps(*make_mirrored(options), Looking(look)), doctest::Contains(why),
                       ConfigError);
}

}  // namespace

TEST_SUITE("all_gather") {
  TEST_CASE("all_gather: every type arrives bit for bit, in the order of replicas") {
    std::atomic<int> looked{0};
    const Looking hooks([&](Replica& replica, const Batch& batch) {
      const auto own = extremes(replica.place().index);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const auto [rows, begin] = replica.all_gather(own[i]);
        std::vector<at::Tensor> expected;
        const auto replicas = std::min<std::int64_t>(rows.size(0) / 2, replica.place().count);
        for (int r = 0; r < replicas; ++r) expected.push_back(extremes(r)[i]);
        if (!is_same(rows, torch::cat(expected))) throw std::runtime_error("other bits");
        if (begin != (batch.stand_in ? 0 : 2 * replica.place().index))
          throw std::runtime_error("another place");
      }
      ++looked;
    });
    train_everywhere(hooks);
    CHECK(looked > 0);
  }

  TEST_CASE("all_gather: as many rows as each replica has, none from one that stands in") {
    std::atomic<int> empty{0};
    const Looking hooks([&](Replica& replica, const Batch& batch) {
      const at::Tensor x = batch.fields[0];
      const auto [all, begin] = replica.all_gather(x);
      const at::Tensor counted = replica.all_gather(torch::ones({batch.stand_in ? 0 : 1, 1})).rows;
      if (!batch.stand_in && !is_same(all.narrow(0, begin, x.size(0)), x))
        throw std::runtime_error("its own rows are not at begin");
      if (batch.stand_in) ++empty;
      if (all.size(0) != 4 && all.size(0) != 2) throw std::runtime_error("another batch");
      if (counted.size(0) > replica.place().count) throw std::runtime_error("more than replicas");
    });
    train_everywhere(hooks);
    CHECK(empty > 0);
  }

  TEST_CASE("all_gather: the gradient of a row is the sum of all replicas' uses") {
    // The loss of replica r is (r + 1) times the sum of (row + 1) x over all rows of x.
    const Looking hooks([](Replica& replica, const Batch& batch) {
      const at::Tensor own = torch::ones({2, 1}, torch::dtype(torch::kFloat64)).requires_grad_();
      const auto [all, begin] = replica.all_gather(own);
      const auto weights =
          torch::arange(1.0, static_cast<double>(all.size(0)) + 1, torch::kFloat64);
      (all.squeeze(1) * weights * (replica.place().index + 1.0)).sum().backward();
      const auto counting = static_cast<double>(all.size(0)) / 2;
      const double uses = counting * (counting + 1) / 2;  // 1 + 2 + ...
      const at::Tensor expected =
          batch.stand_in ? torch::zeros({2}, torch::kFloat64) : weights.narrow(0, begin, 2) * uses;
      if (!torch::equal(own.grad().squeeze(1), expected)) throw std::runtime_error("not the sum");
      const torch::NoGradGuard no_grad;
      if (replica.all_gather(own).rows.requires_grad()) throw std::runtime_error("a graph");
    });
    train_everywhere(hooks);
  }

  TEST_CASE("all_gather: where no replica has all rows it is refused, with the reason") {
    const auto gather = [](Replica& replica, const Batch& batch) {
      (void)replica.all_gather(batch.fields[0]);
    };
    auto parts = mirrored_options(2);
    parts.step.accumulate = 2;
    check_refused(gather, parts, "--accumulate computes them in parts");
    auto virtual_replicas = mirrored_options(2);
    virtual_replicas.virtual_replicas = 4;
    check_refused(gather, virtual_replicas, "needs all replicas at the same time");
    const auto options = mirrored_options(2);
    check_refused([](Replica& replica, const Batch&) { (void)replica.all_gather(torch::ones({})); },
                  options, "without rows");
    check_refused(
        [](Replica& replica, const Batch&) {
          (void)replica.all_gather(torch::ones({2}, torch::kComplexFloat));
        },
        options, "torch::view_as_real");
    check_refused(
        [](Replica& replica, const Batch&) {
          const at::Tensor own = torch::ones({2, 1}).requires_grad_();
          (void)torch::autograd::grad({replica.all_gather(own).rows.pow(2).sum()}, {own}, {},
                                      c10::nullopt, /*create_graph=*/true);
        },
        options, "no second derivative");

    class Predicting final : public TinyHooks {
     public:
      [[nodiscard]] Predictions predict_step(Replica& replica, const Batch& batch) const override {
        return {{"all", replica.all_gather(batch.fields[0]).rows}};
      }
    };
    const Predicting hooks;
    const auto strategy = make_mirrored(options);
    auto state = strategy->create_state(hooks, 1);
    CHECK_THROWS_WITH((void)predict(hooks, state, hooks.create_datasets().test, 4),
                      doctest::Contains("predict_step has those of one worker"));
  }

  TEST_CASE("all_gather: what is for workers between their steps is refused inside one") {
    using Call = std::function<void(Strategy & strategy)>;
    const std::vector<std::pair<std::string, Call>> calls = {
        {"sum",
         [](Strategy& strategy) {
           std::vector<double> values{1};
           strategy.sum(Span<double>(values));
         }},
        {"gather", [](Strategy& strategy) { (void)strategy.gather("mine"); }},
        {"gather_to_chief", [](Strategy& strategy) { (void)strategy.gather_to_chief({}); }},
        {"broadcast", [](Strategy& strategy) { strategy.broadcast({}); }}};
    for (const auto& [name, call] : calls) {
      const auto inside = [&of = call](Strategy& strategy) {
        of(strategy);  // between steps it is right
        train_steps(strategy, Looking([&](Replica&, const Batch&) { of(strategy); }));
      };
      const std::string why = "strategy." + name + "() was called inside a step";
      CAPTURE(why);
      const auto mirrored = make_mirrored(mirrored_options(2));
      CHECK_THROWS_WITH_AS(inside(*mirrored), doctest::Contains(why.c_str()), ConfigError);
      const auto errors = try_workers(2, [&](int, Strategy& strategy) {
        // A group that has met: before that nothing can be exchanged.
        train_steps(strategy, Looking([&, &of = call](Replica&, const Batch&) { of(strategy); }));
      });
      CHECK(message_of(errors[0]).find(why) != std::string::npos);
    }
  }

  TEST_CASE("all_gather: rows of other shapes, and a replica that leaves it out, are named") {
    const auto other_width = [](Replica& replica, const Batch&) {
      (void)replica.all_gather(torch::ones({2, 1 + replica.place().index}));
    };
    CHECK_THROWS_WITH_AS(train_steps(*make_mirrored(mirrored_options(2)), Looking(other_width)),
                         doctest::Contains("all_gather of rows [2]"), DesyncError);
    const auto skipping = [](Replica& replica, const Batch& batch) {
      if (replica.place().index == 0) (void)replica.all_gather(batch.fields[0]);
    };
    CHECK_THROWS_WITH_AS(train_steps(*make_mirrored(mirrored_options(2)), Looking(skipping)),
                         doctest::Contains("all_gather of rows [1]"), DesyncError);
    const auto errors =
        try_workers(2, [&](int, Strategy& strategy) { train_steps(strategy, Looking(skipping)); });
    CHECK(message_of(errors[0]).find("all_gather of rows [1]") != std::string::npos);
  }
}

}  // namespace all_gather_test
