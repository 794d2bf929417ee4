// What a chief saves, and what the next one makes of it where the chief is lost.
#include "troupe/train/checkpoint/checkpointer.h"

#include <filesystem>
#include <memory>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "tests/unit/train/fake_group.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace checkpointer_test {

using troupe::Better;
using troupe::Checkpointer;
using troupe::testing::FakeGroup;
using troupe::testing::TempDir;
using troupe::testing::TinyHooks;
using troupe::testing::view_of_group;

namespace {

const troupe::DataIdentity kData{10, 2, 1, 1};
constexpr std::int64_t kStep = 8;

/// Nobody comes or goes.
class StillGroup final : public troupe::Elasticity {
 public:
  [[nodiscard]] std::vector<troupe::GroupChange> take_changes() override { return {}; }
  void lead_if(std::function<bool()>) override {}
  void start() override {}
  void end() override {}
  [[nodiscard]] bool is_joining() const override { return false; }
  [[nodiscard]] bool joiners_wait() const override { return false; }
  void admit(const std::function<void()>&) override {}
  void enter(const std::function<void()>&) override {}
  [[nodiscard]] std::optional<troupe::Departure> departure(bool) override { return std::nullopt; }
  void leave() override {}
};

class ElasticFake final : public FakeGroup {
 public:
  using FakeGroup::FakeGroup;
  [[nodiscard]] troupe::Elasticity* elastic() override { return &group_; }

 private:
  StillGroup group_;
};

/// So many bytes of weights that their files are not written at once.
class LargeHooks final : public TinyHooks {
 public:
  [[nodiscard]] troupe::Trainable create_model() const override {
    torch::nn::Linear line(4096, 4096);
    return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 0.01)};
  }
};

troupe::TrainState state_at(std::int64_t step, const TinyHooks& hooks = TinyHooks()) {
  troupe::TrainState state = troupe::make_one_device({})->create_state(hooks, 1);
  state.step = step;
  return state;
}

std::optional<troupe::BestCheckpoint> best_in(const TempDir& dir) {
  troupe::PosixFileSystem files(dir.path());
  const auto index = troupe::usable_index(files);
  return index ? index->best : std::nullopt;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("checkpointer: the best value that a lost chief did not write is the next one's") {
    const TempDir dir;
    const troupe::TrainOptions options = troupe::testing::quiet_options(100, 2, dir.path());
    auto state = state_at(kStep);
    FakeGroup alone(view_of_group(1));
    { const Checkpointer chief(alone, state, kData, options, troupe::steady_clock(), {}); }
    REQUIRE_FALSE(best_in(dir));

    const auto lead_after = [&](double value, std::int64_t at) {
      FakeGroup group(view_of_group(2, 1));
      Checkpointer next(group, state, kData, options, troupe::steady_clock(), {}, nullptr,
                        Checkpointer::Begin::under_way);
      state.step = at;
      next.offer_best("loss", value, Better::lower);
      CHECK_FALSE(best_in(dir));
      state.step = kStep;
      group.become(view_of_group(1));
      next.lead(/*tells=*/false);
    };
    lead_after(0.5, kStep - 1);  // of a step that this checkpoint is not of
    CHECK_FALSE(best_in(dir));
    lead_after(0.5, kStep);
    REQUIRE(best_in(dir));
    CHECK(best_in(dir)->step == kStep);
    CHECK(best_in(dir)->value == 0.5);
  }

  TEST_CASE("checkpointer: an elastic group begins when its first state is written") {
    // Nobody has it once the first step is taken.
    const TempDir dir;
    const troupe::TrainOptions options = troupe::testing::quiet_options(100, 2, dir.path());
    auto state = state_at(0, LargeHooks());
    ElasticFake group(view_of_group(1));
    const Checkpointer chief(group, state, kData, options, troupe::steady_clock(), {});
    CHECK(std::filesystem::exists(dir / troupe::checkpoint_name(0)));
  }
}

}  // namespace checkpointer_test
