// Weights made to differ on one worker: found at the next comparison, named, and not saved.
#include <filesystem>
#include <functional>
#include <set>

#include "tests/support/caught.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "tests/unit/train/fake_group.h"
#include "tests/unit/train/loop_runs.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/kinds/weight_comparison.h"

namespace weight_check_test {

using namespace troupe::testing;  // NOLINT
using troupe::text;
using troupe::TrainState;

namespace {

/// TinyHooks with an optimiser that has a state. Six steps an epoch, three epochs.
class MomentumHooks final : public TinyHooks {
 public:
  MomentumHooks() : TinyHooks(24) {}
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto made = TinyHooks::create_model();
    auto optimizer = std::make_shared<torch::optim::SGD>(
        made.models[0].second->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    return {made.models[0].second, optimizer};
  }
};

/// What the loop's body does after a step.
using AfterStep = std::function<void(int rank, TrainState& state)>;

struct Job {
  int workers = 2;
  int replicas = 1;  // of each
  troupe::TrainOptions options = loop_options();
  AfterStep after_step = [](int, TrainState&) {};
  std::function<void(int rank, troupe::TrainOptions& options)> adjust = nullptr;
  troupe::Overlap overlap = troupe::Overlap::automatic;
};

struct CheckedEnds {
  RankErrors errors;
  std::string hash;  // of all
};

void train(troupe::Strategy& strategy, const Job& job, std::string& hash) {
  const MomentumHooks hooks;
  troupe::TrainOptions options = job.options;
  if (job.adjust) job.adjust(strategy.rank(), options);
  auto state = strategy.create_state(hooks, options.seed);
  const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
  troupe::TrainingRun run(strategy, hooks, state, data, options);
  for (auto& epoch : run.epochs()) {
    for (const auto& batch : epoch) {
      run.train_step(batch);
      job.after_step(strategy.rank(), state);
    }
  }
  (void)run.finish();
  const std::string own = troupe::common_parameter_hash(strategy, state);
  if (strategy.is_chief()) hash = own;
  strategy.close();
}

CheckedEnds run(const Job& job) {
  CheckedEnds ends;
  ends.errors = try_workers(
      job.workers, [&](int, troupe::Strategy& strategy) { train(strategy, job, ends.hash); },
      [&](auto& options) {
        options.replicas = job.replicas;
        options.buckets.overlap = job.overlap;
      });
  return ends;
}

/// One element, by more than the rounding of later steps could make good.
void damage(const at::Tensor& tensor) { tensor.data_ptr<float>()[tensor.numel() - 1] += 1.F / 128; }

/// Damages the bias of one replica of one worker after a step.
AfterStep damage_at(std::int64_t step, int rank, std::size_t replica = 0) {
  return [=](int own, TrainState& state) {
    if (own == rank && state.step == step) damage(state.replicas[replica]->parameters()[1].second);
  };
}

/// Every worker ends with this sentence and with the code of a failure worth another start; at
/// least one by its own comparison, the others perhaps by a peer's word.
void check_named(const CheckedEnds& ends, const std::string& sentence) {
  int own = 0;
  for (const auto& error : ends.errors) {
    CHECK_MESSAGE(has(message_of(error), sentence), message_of(error));
    REQUIRE(error);
    try {
      std::rethrow_exception(error);
    } catch (const troupe::Error& caught) {
      CHECK(caught.exit_code() == 138);
      if (std::string(caught.kind()) == "weights-differ") ++own;
    }
  }
  CHECK(own >= 1);
}

/// "0 4 8"
std::string checkpoints_in(const TempDir& dir) {
  std::set<int> steps;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string name = entry.path().filename().string();
    const std::string start = "model.ckpt-";
    if (name.rfind(start, 0) == 0) steps.insert(std::stoi(name.substr(start.size())));
  }
  std::string all;
  for (const int step : steps) all += text(all.empty() ? "" : " ", step);
  return all;
}

Job saving_job(const TempDir& dir, std::int64_t check_every, std::int64_t save_every) {
  Job job;
  job.options = loop_options(dir.path());
  job.options.check_weights_every = check_every;
  job.options.save_checkpoints_steps = save_every;
  return job;
}

/// Three workers with equal weights. With the first answer rank 1 becomes the chief, or nobody.
class ComparingGroup final : public FakeGroup {
 public:
  explicit ComparingGroup(bool loses_chief)
      : FakeGroup(view_of_group(3, 1)), loses_chief_(loses_chief) {}
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    given.push_back(mine);
    if (loses_chief_) become(view_of_group(2, 0));
    return {mine, mine};
  }
  std::vector<std::string> given;

 private:
  bool loses_chief_;
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("weights: who becomes the chief within a comparison still compares what it holds") {
    auto state = troupe::make_one_device({})->create_state(MomentumHooks(), 1);
    state.averages.emplace().values = state.replicas[0]->parameters();
    const auto given = [&](bool loses_chief) {
      ComparingGroup group(loses_chief);
      const troupe::detail::Captured of_another;
      troupe::detail::check_weights(group, state, std::nullopt, &of_another);
      return group.given;
    };
    const auto undisturbed = given(false);
    REQUIRE(undisturbed.size() == 2);
    CHECK((given(true) == undisturbed));
  }

  TEST_CASE("weights: of two workers both are named at the next comparison, and nothing is saved") {
    for (const int rank : {0, 1}) {
      CAPTURE(rank);
      const TempDir dir;
      Job job = saving_job(dir, 4, 5);
      job.after_step = damage_at(6, rank);
      check_named(
          run(job),
          "after step 8 the weights of rank 0, rank 1 differ, first in \"bias\". Nothing of "
          "this step was saved; the newest checkpoint is of step 5. Fix: start the group "
          "again");
      CHECK(checkpoints_in(dir) == "0 5");
    }
  }

  TEST_CASE("weights: of three workers the one that differs is named, whichever it is") {
    for (const int rank : {0, 1, 2}) {
      CAPTURE(rank);
      Job job;
      job.workers = 3;
      job.options.check_weights_every = 3;
      job.after_step = damage_at(4, rank);
      check_named(run(job), text("after step 6 the weights of rank ", rank,
                                 " differ from those of the others, first in \"bias\". Nothing of "
                                 "this step was saved; there is no checkpoint. "));
    }
  }

  TEST_CASE("weights: without a majority all are named") {
    Job job;
    job.workers = 3;
    job.options.check_weights_every = 3;
    job.after_step = [](int rank, TrainState& state) {
      if (state.step != 2) return;
      for (int i = 0; i < rank; ++i) damage(state.replicas[0]->parameters()[0].second);
    };
    check_named(run(job), "the weights of rank 0, rank 1, rank 2 differ, first in \"weight\".");
  }

  TEST_CASE("weights: every save compares, the last one too, where nothing else does") {
    struct Case {
      std::int64_t save_every, damaged_at;
      int rank;
      const char *named, *saved;
    };
    for (const auto& one : {Case{5, 6, 0, "after step 10 the weights of rank 0 differ", "0 5"},
                            Case{1000, 18, 2, "after step 18 the weights of rank 2 differ", "0"}}) {
      CAPTURE(one.named);
      const TempDir dir;
      Job job = saving_job(dir, 0, one.save_every);
      job.workers = 3;
      job.after_step = damage_at(one.damaged_at, one.rank);
      check_named(run(job), text(one.named, " from those of the others"));
      CHECK(checkpoints_in(dir) == one.saved);
    }
  }

  TEST_CASE("weights: what differs before the first step is not saved either") {
    const TempDir dir;
    const MomentumHooks hooks;
    CheckedEnds ends;
    ends.errors = try_workers(3, [&](int rank, troupe::Strategy& strategy) {
      auto state = strategy.create_state(hooks, 1);
      if (rank == 1) damage(state.replicas[0]->parameters()[0].second);
      const auto options = saving_job(dir, 0, 5).options;
      const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
      troupe::TrainingRun run(strategy, hooks, state, data, options);
    });
    check_named(ends, "after step 0 the weights of rank 1 differ from those of the others");
    CHECK(checkpoints_in(dir).empty());
  }

  TEST_CASE("weights: a save compares what it has copied, after its listeners") {
    struct Damages final : troupe::SavingListener {
      explicit Damages(TrainState& of) : damaged(of) {}
      void before_save(std::int64_t) override {
        damage(damaged.replicas[0]->parameters()[0].second);
      }
      TrainState& damaged;
    };
    const TempDir dir;
    const MomentumHooks hooks;
    CheckedEnds ends;
    ends.errors = try_workers(3, [&](int rank, troupe::Strategy& strategy) {
      auto state = strategy.create_state(hooks, 1);
      const auto options = saving_job(dir, 0, 5).options;
      const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
      troupe::Callbacks callbacks;
      if (rank == 0) callbacks.listeners = {std::make_shared<Damages>(state)};
      troupe::TrainingRun run(strategy, hooks, state, data, options, callbacks);
    });
    check_named(ends, "after step 0 the weights of rank 0 differ from those of the others");
    CHECK(checkpoints_in(dir).empty());
  }

  TEST_CASE("weights: an optimiser's state that differs is not saved") {
    const TempDir dir;
    Job job = saving_job(dir, 1, 5);
    job.workers = 3;
    job.after_step = [](int rank, TrainState& state) {
      if (rank != 1 || state.step != 5) return;
      auto& optimizer = state.replicas[0]->optimizer();
      for (auto& [key, own] : optimizer.state()) {
        damage(static_cast<torch::optim::SGDParamState&>(*own).momentum_buffer());
      }
    };
    check_named(run(job),
                "after step 5 the averages and optimiser states of rank 1 differ from those of the "
                "others, first in \"optimizer/weight/momentum_buffer\".");
    CHECK(checkpoints_in(dir) == "0");
  }

  TEST_CASE("weights: one of several replicas of a worker is named") {
    Job job;
    job.replicas = 2;
    job.options.check_weights_every = 3;
    job.after_step = damage_at(1, 1, 1);
    check_named(run(job), "after step 3 the weights of replica 3 (rank 1) differ from those");
  }

  TEST_CASE("weights: replicas of one process are compared in memory") {
    const auto strategy = troupe::make_mirrored(mirrored_options(3));
    Job job;
    job.options.check_weights_every = 3;
    job.after_step = damage_at(4, 0, 1);
    std::string hash;
    CHECK_THROWS_WITH_AS(train(*strategy, job, hash),
                         doctest::Contains("after step 6 the weights of replica 1 differ from "
                                           "those of the others, first in \"bias\"."),
                         troupe::WeightsDiffer);
  }

  TEST_CASE(
      "weights: comparing them changes no bit, resumed at any interval, with sums under way") {
    Job plain;
    plain.options.check_weights_every = 0;
    const std::string expected = run(plain).hash;
    CHECK_FALSE(expected.empty());
    for (const auto overlap : {troupe::Overlap::off, troupe::Overlap::on}) {
      for (const std::int64_t every : {1, 4}) {
        CAPTURE(every);
        const TempDir dir;
        Job job = saving_job(dir, every, 100);
        job.overlap = overlap;
        job.options.max_steps = 7;
        for (const auto& error : run(job).errors) CHECK(message_of(error) == "");
        job.options.max_steps = std::nullopt;
        job.options.check_weights_every = 5 - every;
        const CheckedEnds ends = run(job);
        for (const auto& error : ends.errors) CHECK(message_of(error) == "");
        CHECK(ends.hash == expected);
        CHECK(checkpoints_in(dir) == "0 7 18");
      }
    }
  }

  TEST_CASE("weights: a comparison that one worker alone makes ends the run") {
    Job job;
    job.adjust = [](int rank, troupe::TrainOptions& options) {
      options.check_weights_every = rank == 0 ? 2 : 3;
    };
    const CheckedEnds ends = run(job);
    for (const auto& error : ends.errors) {
      CHECK_MESSAGE(is<troupe::DesyncError>(error), message_of(error));
    }
  }
}

}  // namespace weight_check_test
