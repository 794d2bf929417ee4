// Averaged weights in training: their values, who uses them, and what a checkpoint says of them.
#include <algorithm>

#include "tests/unit/estimator/learning_runs.h"
#include "troupe/core/clock.h"
#include "troupe/estimator/estimator.h"
#include "troupe/train/checkpoint/model_weights.h"

using troupe::testing::CapturedLog;
using troupe::testing::Ending;
using troupe::testing::has;
using troupe::testing::learning_options;
using troupe::testing::Rates;
using troupe::testing::schedule_of;
using troupe::testing::TempDir;
using troupe::testing::TinyHooks;
using troupe::testing::train_alone;
using troupe::testing::train_two;

TEST_SUITE("learning") {
  TEST_CASE("learning: averages are those worked out by hand, and validation uses them") {
    const TempDir dir;
    auto options = learning_options(dir.path(), {});
    const auto seen = std::make_shared<Rates>();
    const Ending with = train_alone(TinyHooks(), options, 0, seen);
    double average = 0.5;  // the initial weight
    for (std::size_t n = 0; n < seen->weights.size(); ++n) {
      const double decay = std::min(0.9, (1.0 + n) / (10.0 + n));
      CHECK(troupe::averaging_decay(0.9, static_cast<std::int64_t>(n)) == decay);
      average = decay * average + (1 - decay) * seen->weights[n];
    }
    const auto saved = troupe::read_weights((dir / "model.ckpt-10").string());
    const auto raw = std::find_if(saved.begin(), saved.end(),
                                  [](const auto& tensor) { return tensor.first == "weight"; });
    REQUIRE(raw != saved.end());
    CHECK(raw->second.item<double>() == seen->weights.back());
    const auto strategy = troupe::make_one_device({});
    auto state = strategy->create_state(TinyHooks(), 1);
    CapturedLog log;
    troupe::load_weights(*state.replicas.front(), (dir / "model.ckpt-10").string());
    CHECK(has(log.text(), "the averaged weights of"));
    CHECK(troupe::parameter_hash(*state.replicas.front()) == with.averages);
    const auto loaded = state.replicas.front()->parameters();
    CHECK(loaded.front().second.item<double>() == doctest::Approx(average).epsilon(1e-6));
    // The last validation was one with these weights.
    const auto data = strategy->distribute(TinyHooks().create_datasets(), {8, 1});
    CHECK(
        troupe::evaluate(*strategy, TinyHooks(), state, *data.validation, troupe::Phase::validation)
            .losses == with.validation);
    // Training itself is the same without averages.
    const TempDir other;
    options = learning_options(other.path(), {});
    options.ema_decay = 0;
    const Ending without = train_alone(TinyHooks(), options);
    CHECK(without.hash == with.hash);
    CHECK(without.validation != with.validation);
    CHECK(without.averages == without.hash);
  }

  TEST_CASE("learning: two workers have one worker's averages, up to rounding") {
    const TempDir one, two;
    const auto alone = train_alone(
        TinyHooks(), learning_options(one.path(), schedule_of(troupe::Schedule::cosine)));
    const auto both =
        train_two(TinyHooks(), learning_options(two.path(), schedule_of(troupe::Schedule::cosine)));
    CHECK(both.validation.front().second ==
          doctest::Approx(alone.validation.front().second).epsilon(1e-5));
    CHECK(both.rates == alone.rates);
  }

  TEST_CASE("learning: averages switched on, changed and switched off between starts") {
    const TempDir dir;
    auto options = learning_options(dir.path(), {});
    options.ema_decay = 0;
    (void)train_alone(TinyHooks(), options, 3);
    const CapturedLog log;
    options.ema_decay = 0.5;
    const Ending second = train_alone(TinyHooks(), options, 4);
    CHECK(has(log.text(), "has no averaged weights: they begin at its weights"));
    CHECK(second.averages != second.hash);
    options.ema_decay = 0.9;
    (void)train_alone(TinyHooks(), options, 5);
    CHECK(has(log.text(), "continue with --ema-decay 0.9; so far it was 0.5"));
    options.ema_decay = 0;
    const Ending last = train_alone(TinyHooks(), options, 6);
    CHECK(has(log.text(), "averaged weights are dropped"));
    CHECK(last.averages == last.hash);
    CHECK_FALSE(std::filesystem::exists(dir / "model.ckpt-6" / "averages.safetensors"));
    CHECK(std::filesystem::exists(dir / "model.ckpt-5" / "averages.safetensors"));
  }
}
