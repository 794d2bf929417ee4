// What a checkpoint holds, without the files: a copy of the run, complete.
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/train/checkpoint/run_snapshot.h"

using troupe::testing::TinyHooks;

namespace {

const troupe::DataIdentity kData{10, 2, 1, 1};

/// One device's training, at some point of it.
struct SavedRun {
  std::unique_ptr<troupe::Strategy> strategy = troupe::make_one_device({});
  troupe::TrainState state = strategy->create_state(TinyHooks(), 1);

  troupe::RunSnapshot capture() { return troupe::capture(*strategy, state, kData); }
  void restore(const troupe::RunSnapshot& snapshot) {
    troupe::restore(*strategy, state, kData, snapshot);
  }
};

void add_loss(troupe::TrainState& state, const char* name, double value, std::int64_t examples) {
  troupe::StepResult result;
  result.losses.emplace_back(name, torch::tensor(value, torch::kFloat64));
  state.epoch_loss.add({result}, examples);
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("snapshot: losses by name, the loop's own numbers and the observed epoch come back") {
    SavedRun former;
    add_loss(former.state, "critic", 3, 8);
    add_loss(former.state, "generator", 5, 4);
    add_loss(former.state, "critic", 1, 8);
    former.state.kept = {{"patience", 3}, {"best", 0.1}, {"none", -0.0}};
    former.state.kept["never"] = std::numeric_limits<double>::infinity();
    former.state.kept["unknown"] = std::numeric_limits<double>::quiet_NaN();
    former.state.plateau.observed_epoch = 4;
    SavedRun later;
    later.state.kept = {{"stale", 1}};
    later.restore(former.capture());
    const auto losses = later.state.epoch_loss.sums();
    REQUIRE(losses.size() == 2);
    CHECK(losses[0].total == 32);
    CHECK(losses[0].weight == 16);
    CHECK(losses[1].total == 20);
    CHECK(losses[1].weight == 4);
    CHECK(later.state.epoch_loss.examples() == 20);
    CHECK(later.state.plateau.observed_epoch == 4);
    auto& kept = later.state.kept;
    CHECK(kept.size() == 5);
    CHECK(kept.at("patience") == 3);
    CHECK(kept.at("best") == 0.1);
    CHECK(std::signbit(kept.at("none")));
    CHECK(std::isinf(kept.at("never")));
    CHECK(std::isnan(kept.at("unknown")));
  }

  TEST_CASE("snapshot: it is a copy, which training does not change") {
    SavedRun run;
    const auto snapshot = run.capture();
    const torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : run.state.replicas[0]->parameters()) tensor.zero_();
    for (const auto& [name, tensor] : snapshot.files.at("model.safetensors")) {
      CHECK(tensor.abs().max().item<float>() > 0.2F);
    }
  }

  TEST_CASE("snapshot: what lacks a file or a tensor is refused by name") {
    SavedRun run;
    auto without_file = run.capture();
    without_file.files.erase("optimizers.safetensors");
    CHECK_THROWS_WITH_AS(run.restore(without_file),
                         doctest::Contains("optimizers.safetensors is missing"),
                         troupe::CheckpointError);
    auto without_tensor = run.capture();
    auto& own = without_tensor.files.at("worker-0.safetensors");
    own.erase(own.begin());
    CHECK_THROWS_WITH_AS(run.restore(without_tensor), doctest::Contains("has no \"random\""),
                         troupe::CheckpointError);
  }
}
