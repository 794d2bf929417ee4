// State of one's own: where hooks are in the training, optimisers that step in some steps only, and
// buffers of the hooks' own, on every strategy, in parts, and resumed.
#include <map>
#include <mutex>

#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/server_runs.h"
#include "troupe/core/failure.h"

namespace own_state_test {

using namespace troupe::testing;  // NOLINT: a test

namespace {

/// When the actor steps.
enum class Actor {
  every_third_step,    // by progress().step
  on_one_replica,      // a decision that replicas do not share
  in_the_first_part,   // one that the parts of a step do not
  by_calls,            // the same, by a count of calls of train_step
  alone_every_second,  // and the critic never: some steps have no update at all
};

/// A critic that every step trains, and an actor that some do, with a value kept across steps: the
/// mean of the critic's loss, and a count of the actor's steps.
class ActorCritic final : public troupe::testing::TinyHooks {
 public:
  explicit ActorCritic(Actor when = Actor::every_third_step, std::int64_t examples = 22)
      : TinyHooks(examples), when_(when) {}

  [[nodiscard]] troupe::Trainable create_model() const override {
    torch::nn::Linear critic(1, 1);
    torch::nn::Linear actor(1, 1);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : critic->parameters()) parameter.fill_(0.5);
    for (auto& parameter : actor->parameters()) parameter.fill_(0.25);
    namespace o = torch::optim;
    return troupe::Trainable()
        .add_model("critic", critic.ptr())
        .add_model("actor", actor.ptr())
        .add_optimizer("critic", std::make_shared<o::Adam>(critic->parameters(), 0.01))
        .add_optimizer("actor", std::make_shared<o::SGD>(actor->parameters(),
                                                         o::SGDOptions(0.02).momentum(0.9)))
        .add_buffer("mean_loss", torch::zeros({}))
        .add_buffer("actor_steps", torch::zeros({}, torch::kInt64));
  }

  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    remember(replica.progress());
    const auto losses = losses_of(replica, batch);
    if (when_ != Actor::alone_every_second) replica.apply_gradients(losses.critic, "critic");
    const bool acts = acts_in(replica);
    if (acts) replica.apply_gradients(losses.actor, "actor");
    replica.buffer("mean_loss").lerp_(losses.critic.detach(), 0.1);
    const auto at = replica.progress();
    if (acts && at.part + 1 == at.parts) replica.buffer("actor_steps").add_(1);
    return {{"critic", losses.critic}, {"actor", losses.actor}};
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto losses = losses_of(replica, batch);
    return {{"critic", losses.critic}, {"actor", losses.actor}};
  }

  /// Of every call of train_step so far.
  [[nodiscard]] std::vector<troupe::StepProgress> seen() const { return seen_; }

 private:
  struct Losses {
    at::Tensor critic, actor;
  };
  [[nodiscard]] static Losses losses_of(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [x, target] = batch.unpack<2>();
    const auto value = replica.model<torch::nn::LinearImpl>("critic").forward(x);
    const auto action = replica.model<torch::nn::LinearImpl>("actor").forward(x);
    const auto& squared_error = replica.loss("squared_error");
    replica.metric("absolute_error").update((value - target).abs());
    return {replica.global_mean(squared_error(value, target)),
            replica.global_mean(squared_error(action, value.detach()))};
  }
  [[nodiscard]] bool acts_in(const troupe::Replica& replica) const {
    const troupe::StepProgress at = replica.progress();
    switch (when_) {
      case Actor::every_third_step:
        return at.step % 3 == 0;
      case Actor::on_one_replica:
        return replica.place().index == 0;
      case Actor::in_the_first_part:
        return at.part == 0;
      case Actor::by_calls:
        return seen_.size() % 3 == 1;
      case Actor::alone_every_second:
        return at.step % 2 == 0;
    }
    return false;
  }
  void remember(const troupe::StepProgress& at) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.push_back(at);
  }

  const Actor when_;
  mutable std::mutex mutex_;
  mutable std::vector<troupe::StepProgress> seen_;
};

/// 22 examples in batches of 8, 8 and 6.
troupe::TrainOptions options_for(std::int64_t max_steps) { return quiet_options(max_steps, 8); }
troupe::TrainOptions options_in(const TempDir& dir, std::int64_t max_steps) {
  return quiet_options(max_steps, 8, dir.path());
}

troupe::StrategyOptions replicas(int count, std::int64_t parts = 1) {
  troupe::StrategyOptions options = mirrored_options(count);
  options.step.accumulate = parts;
  return options;
}

/// What a training without servers ends with; `buffers` of the first replica.
struct Ending {
  troupe::LossValues losses;
  std::map<std::string, double> buffers;
  std::string hash;
  bool operator==(const Ending& other) const {
    return losses == other.losses && buffers == other.buffers && hash == other.hash;
  }
};

Ending train_with(troupe::Strategy& strategy, const troupe::Hooks& hooks,
                  const troupe::TrainOptions& options) {
  auto state = strategy.create_state(hooks, options.seed);
  const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
  (void)troupe::train(strategy, hooks, state, data, options);
  Ending ending;
  ending.losses = troupe::test(strategy, hooks, state, data).value().losses;
  for (const auto& [name, value] : state.replicas[0]->buffers()) {
    ending.buffers[name] = value.item<double>();
  }
  ending.hash = troupe::common_parameter_hash(strategy, state);
  strategy.close();
  return ending;
}

void check_near(const troupe::LossValues& losses, const troupe::LossValues& expected) {
  REQUIRE(losses.size() == expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i].first == expected[i].first);
    CHECK(losses[i].second == doctest::Approx(expected[i].second).epsilon(1e-6));
  }
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("own state: hooks know step, epoch and part") {
    const ActorCritic hooks;
    (void)train_alone(*troupe::make_mirrored(replicas(1, 2)), hooks, options_for(4));
    const auto seen = hooks.seen();
    REQUIRE(seen.size() == 8);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      CHECK(seen[i].step == static_cast<std::int64_t>(i / 2));
      CHECK(seen[i].epoch == static_cast<std::int64_t>(i / 6));
      CHECK(seen[i].part == static_cast<std::int64_t>(i % 2));
      CHECK(seen[i].parts == 2);
    }
  }

  TEST_CASE("own state: an actor that steps every third step trains alike on every strategy") {
    const ActorCritic hooks;
    const auto options = options_for(8);
    const Ending alone = train_with(*troupe::make_one_device({}), hooks, options);
    CHECK(alone.buffers.at("actor_steps") == 3);
    CHECK(alone.buffers.at("mean_loss") > 0);
    for (const std::int64_t parts : {1, 2, 3}) {
      for (const int count : {1, 2, 3}) {
        CAPTURE(parts);
        CAPTURE(count);
        const auto mirrored =
            train_with(*troupe::make_mirrored(replicas(count, parts)), hooks, options);
        check_near(mirrored.losses, alone.losses);
        CHECK(mirrored.buffers.at("actor_steps") == 3);
        const auto central =
            train_with(*troupe::make_central_storage(replicas(count, parts)), hooks, options);
        check_near(central.losses, alone.losses);
      }
    }
    for (const int workers : {2, 3}) {
      const auto endings = on_workers(
          workers, [&](troupe::Strategy& group) { return train_with(group, hooks, options); },
          [](auto& group) { group.step.accumulate = 2; });
      for (const Ending& ending : endings) {
        check_near(ending.losses, alone.losses);
        CHECK(ending.buffers.at("actor_steps") == 3);
      }
      check_near(train_job(synchronous(workers, 2), hooks, options).test.losses, alone.losses);
    }
  }

  TEST_CASE("own state: with virtual replicas buffers have the same bits at any width") {
    const ActorCritic hooks;
    std::optional<Ending> first;
    for (const int count : {1, 2, 4}) {
      auto options = replicas(count, 2);
      options.virtual_replicas = 4;
      const auto ending = train_with(*troupe::make_mirrored(options), hooks, options_for(8));
      if (!first) first = ending;
      CHECK(ending.hash == first->hash);
      CHECK(ending.buffers == first->buffers);
      CHECK(ending.buffers.at("actor_steps") == 3);
    }
  }

  TEST_CASE("own state: resumed at every step equals uninterrupted, bit for bit") {
    const ActorCritic hooks;
    for (const int count : {1, 2}) {
      for (const int virtual_replicas : {0, 4}) {
        auto options = replicas(count, 2);
        options.virtual_replicas = virtual_replicas;
        check_interruptions(8, [&](const auto& dir, std::int64_t steps, bool) {
          return train_with(*troupe::make_mirrored(options), hooks, quiet_options(steps, 8, dir));
        });
      }
    }
  }

  TEST_CASE("own state: on servers an actor resumes where it was, bit for bit") {
    const ActorCritic hooks;
    const auto whole = train_job(synchronous(2, 2), hooks, options_for(8)).hash;
    for (const std::int64_t stop : {2, 3, 4}) {
      const TempDir dir;
      (void)train_job(synchronous(2, 2), hooks, options_in(dir, stop));
      CHECK(train_job(synchronous(2, 1), hooks, options_in(dir, 8)).hash == whole);
    }
  }

  TEST_CASE("own state: a step without any update is a step, on every strategy") {
    const ActorCritic hooks(Actor::alone_every_second);
    const auto options = options_for(7);
    const Ending alone = train_with(*troupe::make_one_device({}), hooks, options);
    check_near(train_with(*troupe::make_mirrored(replicas(2)), hooks, options).losses,
               alone.losses);
    auto virtual_options = replicas(2);
    virtual_options.virtual_replicas = 4;
    check_near(train_with(*troupe::make_mirrored(virtual_options), hooks, options).losses,
               alone.losses);
    const auto job = train_job(synchronous(2, 2), hooks, options);
    check_near(job.test.losses, alone.losses);
    CHECK(job.step == 7);
    CHECK(train_job(asynchronous(2, 2), hooks, options).step == 7);
    // A run that resumes may begin with one.
    const TempDir dir;
    (void)train_with(*troupe::make_one_device({}), hooks, options_in(dir, 1));
    CHECK(train_with(*troupe::make_one_device({}), hooks, options_in(dir, 7)).hash == alone.hash);
  }

  TEST_CASE("own state: replicas that decide differently are named, in the first such step") {
    const ActorCritic hooks(Actor::on_one_replica);
    const auto options = options_for(3);
    CHECK_THROWS_WITH_AS((void)train_alone(*troupe::make_mirrored(replicas(2)), hooks, options),
                         doctest::Contains("ended its step"), troupe::DesyncError);
    auto virtual_options = replicas(1);
    virtual_options.virtual_replicas = 2;
    CHECK_THROWS_WITH_AS((void)train_alone(*troupe::make_mirrored(virtual_options), hooks, options),
                         doctest::Contains("other optimisers"), troupe::ConfigError);
    const auto errors = try_workers(
        2, [&](int, troupe::Strategy& strategy) { (void)train_alone(strategy, hooks, options); });
    std::string messages;
    for (const auto& error : errors) {
      REQUIRE(error != nullptr);
      messages += message_of(error) + "\n";
    }
    CAPTURE(messages);
    CHECK(messages.find("apply_gradients (2 parameters from \"actor.weight\"") !=
          std::string::npos);
    const auto served = try_job(synchronous(2, 2), hooks, [&](int, troupe::Strategy& strategy) {
      (void)train_alone(strategy, hooks, options);
    });
    for (const auto& error : served) {
      CHECK(message_of(error).find("optimiser") != std::string::npos);
    }
  }

  TEST_CASE(
      "own state: parts of a step that decide differently are refused by the optimiser's name") {
    for (const Actor when : {Actor::in_the_first_part, Actor::by_calls}) {
      const ActorCritic hooks(when);
      CHECK_THROWS_WITH_AS(
          (void)train_alone(*troupe::make_mirrored(replicas(1, 2)), hooks, options_for(3)),
          doctest::Contains("\"actor\""), troupe::ConfigError);
      CHECK_THROWS_WITH_AS(
          (void)train_alone(*troupe::make_mirrored(replicas(1, 3)), hooks, options_for(3)),
          doctest::Contains("replica.progress().step"), troupe::ConfigError);
    }
  }
}

}  // namespace own_state_test
