// What a replica's first steps refuse: losses that are right on one replica only, and parameters
// that a hook changes itself.
#include "troupe/hooks/step_checks.h"

#include "tests/support/captured_log.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/hook_error.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"

using troupe::Phase;
using troupe::detail::ReplicaDriver;

namespace {

/// TinyHooks' replica in its first step, of two examples.
struct Stage {
  explicit Stage(Phase phase = Phase::train, int index = 0)
      : replica(hooks.create_model(), hooks.create_losses(), hooks.create_metrics(),
                {index, 2, c10::Device(c10::kCPU)}, update) {
    begin(phase);
  }
  void begin(Phase phase = Phase::train) { ReplicaDriver(replica).begin_step({phase, 4, 2}); }
  void end() { ReplicaDriver(replica).end_step(); }
  [[nodiscard]] torch::nn::LinearImpl& line() { return replica.model<torch::nn::LinearImpl>(); }
  [[nodiscard]] at::Tensor losses() {
    return line().forward(torch::ones({2, 1})).pow(2).squeeze(1);
  }
  void check(const at::Tensor& loss) const {
    ReplicaDriver(const_cast<troupe::Replica&>(replica)).check_result(loss);
  }

  troupe::testing::TinyHooks hooks;
  troupe::ParameterUpdate update;
  troupe::Replica replica;
};

/// The usual part of a step, after which a hook does what it should not.
void train(Stage& stage) {
  stage.replica.apply_gradients(stage.replica.global_mean(stage.losses()));
}

}  // namespace

TEST_SUITE("hooks") {
  TEST_CASE("step checks: a loss that is one replica's mean is refused, with one replica too") {
    for (const int before : {0, 1}) {  // a loop may run another step function second
      Stage stage;
      for (int i = 0; i < before; ++i) {
        train(stage);
        stage.end();
        stage.begin();
      }
      const auto weight = stage.line().weight.detach().clone();
      const auto unused = stage.replica.global_mean(stage.losses());
      CHECK_THROWS_WITH_AS(stage.replica.apply_gradients(stage.losses().mean()),
                           doctest::Contains("did not come from replica.global_mean"),
                           troupe::ConfigError);
      CHECK(torch::equal(stage.line().weight, weight));
      CHECK_THROWS_WITH_AS(stage.check(stage.losses().mean()),
                           doctest::Contains("train_step returned loss \"loss\""),
                           troupe::ConfigError);
    }
  }

  TEST_CASE("step checks: arithmetic on global means passes, and so does what is declared") {
    Stage stage;
    auto& replica = stage.replica;
    const auto sum =
        2 * replica.global_mean(stage.losses()) + replica.global_mean(stage.losses().abs()).sqrt();
    stage.check(sum);
    auto in_place = torch::zeros({});
    in_place += sum;
    const troupe::testing::CapturedLog log;
    replica.apply_gradients(in_place);
    replica.apply_gradients(replica.local_loss(stage.losses().mean()));
    stage.check(replica.local_loss(stage.losses().mean()));
    stage.check(sum.detach());
    CHECK_NOTHROW(stage.end());
    CHECK(log.text().empty());
    CHECK_THROWS_WITH_AS((void)replica.local_loss(stage.losses()), doctest::Contains("shape [2]"),
                         troupe::ConfigError);
  }

  TEST_CASE("step checks: a declaration holds for its own part of a step") {
    Stage stage;
    const auto former = stage.replica.global_mean(stage.losses());
    stage.begin();
    CHECK_THROWS_AS(stage.replica.apply_gradients(former), troupe::ConfigError);
  }

  TEST_CASE("step checks: a term that each replica adds is warned of once, by one replica") {
    for (const int index : {0, 1}) {
      Stage stage(Phase::train, index);
      const troupe::testing::CapturedLog log;
      for (int step = 0; step < 3; ++step) {
        const auto penalty = stage.line().weight.square().sum();
        stage.replica.apply_gradients(stage.replica.global_mean(stage.losses()) + penalty);
        stage.end();
        stage.begin();
      }
      CHECK(log.count("counts as often as there are replicas") == (index == 0 ? 1 : 0));
      stage.replica.apply_gradients(
          stage.replica.global_mean(stage.losses() + stage.line().weight.square().sum()));
      CHECK(log.count(" W ") == (index == 0 ? 1 : 0));
    }
  }

  TEST_CASE("step checks: without gradients, a step that declares nothing is refused") {
    const torch::NoGradGuard no_grad;
    for (const auto& [phase, name] :
         {std::pair(Phase::validation, "validation_step"), std::pair(Phase::test, "test_step")}) {
      Stage stage(phase);
      CHECK_THROWS_WITH_AS(stage.check(stage.losses().mean()), doctest::Contains(name),
                           troupe::ConfigError);
      CHECK_NOTHROW(stage.check(stage.replica.global_mean(stage.losses())));
    }
  }

  TEST_CASE("step checks: parameters that the hook changes itself are named") {
    const auto own_step = [](Stage& stage) {
      stage.replica.global_mean(stage.losses()).backward();
      stage.replica.optimizer().step();  // SGD's changes evade LibTorch's count of versions
    };
    const auto clip = [](Stage& stage) {
      const torch::NoGradGuard no_grad;
      stage.line().weight.clamp_(-100, 100);  // changes nothing yet
    };
    const auto clip_data = [](Stage& stage) { stage.line().weight.data().clamp_(-0.1, 0.1); };
    int number = 0;
    for (const auto& change : std::vector<std::function<void(Stage&)>>{own_step, clip, clip_data}) {
      CAPTURE(number++);
      Stage before;  // an update sees it
      change(before);
      CHECK_THROWS_WITH_AS(train(before), doctest::Contains("changed parameter \"weight\""),
                           troupe::ConfigError);
      Stage after;  // the end of the step does
      train(after);
      CHECK_NOTHROW(after.end());
      change(after);
      CHECK_THROWS_WITH_AS(after.end(), doctest::Contains("call replica.apply_gradients"),
                           troupe::ConfigError);
    }
  }

  TEST_CASE("step checks: what the loop's body changes between steps, and gradients, are free") {
    Stage stage;
    stage.losses().sum().backward();  // for gradients of inputs, say
    stage.replica.optimizer().zero_grad();
    train(stage);
    stage.replica.optimizer().zero_grad();
    CHECK_NOTHROW(stage.end());
    stage.line().weight.data().clamp_(-0.1, 0.1);
    stage.begin();
    CHECK_NOTHROW(train(stage));
    CHECK_NOTHROW(stage.end());
  }

  TEST_CASE("replica: a wrong type is named as C++ spells it, with what the model is") {
    Stage stage;
    CHECK_THROWS_WITH_AS((void)stage.replica.model<torch::nn::Conv2dImpl>(),
                         "model \"model\" is a torch::nn::LinearImpl, not a "
                         "torch::nn::Conv2dImpl. Fix: ask for the type that create_model made: "
                         "replica.model<torch::nn::LinearImpl>().",
                         troupe::ConfigError);
  }

  /// What `hook` is refused with, called for one replica's batch after so many steps.
  std::string refused_call(const std::vector<at::Tensor>& fields, std::int64_t steps,
                           const std::function<void(const troupe::Batch&)>& hook) {
    troupe::DistributedBatch batch;
    batch.replicas.push_back({fields, fields.front().size(0), false});
    try {
      troupe::detail::in_user_code(
          [&] { hook(batch.replicas.front()); },
          [&] { return troupe::detail::describe_call(Phase::train, steps, batch, 0, 1); },
          troupe::detail::fix_for(batch.replicas.front()));
    } catch (const troupe::HookError& error) {
      CHECK(error.exit_code() == 1);
      CHECK(std::string(error.kind()) == "failed");
      return error.what();
    }
    return "";
  }

  TEST_CASE("hook error: names the hook, the step and the batch") {
    const std::string message =
        refused_call({torch::ones({4, 2}), torch::ones({4})}, 7, [](const troupe::Batch& batch) {
          (void)torch::mm(batch.fields[0], torch::ones({3, 3}));
        });
    CHECK(message.find(
              "train_step failed after 7 steps of training, on a batch of [4, 2], [4]: ") == 0);
    // LibTorch 2.15 has "mm: " before it.
    CHECK(message.find("mat1 and mat2 shapes cannot be multiplied (4x2 and 3x3). Fix: compare "
                       "these shapes") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }

  TEST_CASE("hook error: whatever is thrown is told whole, and once") {
    const std::vector<at::Tensor> fields = {torch::ones({2})};
    const auto message_of = [&](const std::function<void()>& thrower) {
      return refused_call(fields, 3, [&](const troupe::Batch&) { thrower(); });
    };
    const std::string where = "train_step failed after 3 steps of training, on a batch of [2]: ";
    CHECK(message_of([] {
            (void)std::map<int, int>().at(1);
          }).find(where + "map::at (std::out_of_range). Fix: ") == 0);
    CHECK(message_of([] {
            throw std::runtime_error("two\nlines,\tand a tab.\n");
          }).find(where + "two lines, and a tab (std::runtime_error). Fix: ") == 0);
    CHECK(message_of([] { throw 42; }).find(where + "it threw int, which is no std::exception.") ==
          0);
    CHECK(message_of([] { throw std::string("text"); }).find("it threw std::") !=
          std::string::npos);
    // What passes: Troupe's own words, a lack of memory, the end after --help.
    CHECK_THROWS_AS(message_of([] { throw troupe::DataError("a file.", "look."); }),
                    troupe::DataError);
    CHECK_THROWS_AS(message_of([] { throw std::bad_alloc(); }), std::bad_alloc);
    CHECK_THROWS_AS(message_of([] { throw troupe::ControlFlow(); }), troupe::ControlFlow);
  }

  TEST_CASE("hook error: the fix is chosen by the batch, whatever LibTorch's wording is") {
    const auto told = [](const torch::Tensor& labels, auto hook) {
      return refused_call({torch::ones({2, 3}), labels}, 0, [&](const troupe::Batch& batch) {
        (void)hook(batch.fields[0], batch.fields[1]);
      });
    };
    const auto has = [](const std::string& message, const char* fix) {
      CAPTURE(message);
      CHECK(message.find(fix) != std::string::npos);
    };
    const auto loss = [](const torch::Tensor& x, const torch::Tensor& labels) {
      return torch::nll_loss(torch::log_softmax(x, 1), labels);
    };
    has(told(torch::tensor({0, 3}), loss), ". Fix: compare the labels with the number of outputs");
    has(told(torch::tensor({0, -1}), loss), ". Fix: compare the labels with the number of outputs");
    has(told(torch::tensor({0, 3}),
             [](const auto& x, const auto& rows) { return torch::embedding(x, rows); }),
        "indices with the size of what they count");
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kInt, torch::kShort}) {
      has(told(torch::ones({2}, type), loss), "Fix: labels of classes are integers");
    }
    // Neither numbers that are no classes nor another shape is about labels.
    has(told(torch::full({2}, 0.5), loss), "Fix: compare these shapes, and the types");
    has(told(torch::ones({3}, torch::kLong), loss), "Fix: compare these shapes");
    has(told(torch::ones({2}),
             [](const auto& x, const auto&) {
               return x.mm(torch::ones({2, 2}));
             }),
        "Fix: compare these shapes");
  }
}
