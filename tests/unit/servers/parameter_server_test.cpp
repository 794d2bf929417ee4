// Parameter servers: what a whole job comes to, against the same training without servers.
#include "troupe/strategies/parameter_server/parameter_server.h"

#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/server_runs.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/checkpoint/model_weights.h"

namespace parameter_server_test {

using namespace troupe::testing;  // NOLINT: a test

namespace {

/// 22 examples in batches of 8, 8 and 6.
troupe::TrainOptions options_for(std::int64_t max_steps) { return quiet_options(max_steps, 8); }
troupe::TrainOptions options_in(const TempDir& dir, std::int64_t max_steps) {
  return quiet_options(max_steps, 8, dir.path());
}

/// Asks for the end after so many steps of this worker, on the ranks it is given to.
class StopAfter final : public troupe::PeriodicAction {
 public:
  explicit StopAfter(int steps) : left_(steps) {}
  void after_step(const troupe::StepReport&, troupe::RunControl& run) override {
    if (--left_ == 0) run.request_stop("the test asked for it");
  }

 private:
  int left_;
};

double total(const nlohmann::json& histogram) {
  double count = 0;
  for (const auto& value : histogram) count += value.get<double>();
  return count;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("parameter servers: synchronous workers take mirrored's steps, bit for bit") {
    const auto options = options_for(8);
    for (const char* kind : {"sgd", "adam", "groups", "two"}) {
      const ServerHooks hooks(kind);
      for (const auto& layout : {std::pair(2, 1), {3, 2}, {2, 3}, {5, 2}}) {
        CAPTURE(kind);
        const auto workers = layout.first;
        const auto servers = layout.second;
        CAPTURE(workers);
        CAPTURE(servers);
        const auto mirrored = troupe::make_mirrored(mirrored_options(workers));
        const auto expected = train_alone(*mirrored, hooks, options);
        const auto job = train_job(synchronous(workers, servers), hooks, options);
        CHECK(job.hash == expected.hash);
        CHECK(job.step == 8);
        CHECK(job.test.examples == 22);
        CHECK(job.test.losses[0].second ==
              doctest::Approx(expected.test.losses[0].second).epsilon(1e-6));
        CHECK(job.servers["staleness"].size() == 1);  // all of them 0
      }
    }
  }

  TEST_CASE("parameter servers: four replicas end with the same bits however they are spread") {
    const auto options = options_for(6);
    for (const char* kind : {"sgd", "adam", "two"}) {
      CAPTURE(kind);
      const ServerHooks hooks(kind);
      const auto mirrored = troupe::make_mirrored(mirrored_options(4));
      const std::string expected = train_alone(*mirrored, hooks, options).hash;
      for (const int workers : {4, 2}) {
        CAPTURE(workers);
        const auto ends = on_workers(
            workers, [&](troupe::Strategy& group) { return train_alone(group, hooks, options); },
            [&](auto& group) { group.replicas = 4 / workers; });
        for (const TrainingEnd& end : ends) CHECK(end.hash == expected);
        Job job = synchronous(workers, 2);
        job.replicas = 4 / workers;
        CHECK(train_job(job, hooks, options).hash == expected);
      }
    }
  }

  TEST_CASE("parameter servers: two workers of two replicas equal two workers of a group") {
    const auto options = options_for(5);
    const ServerHooks hooks("adam");
    const auto ends = on_workers(
        2, [&](troupe::Strategy& group) { return train_alone(group, hooks, options); },
        [](auto& group) { group.replicas = 2; });
    Job job = synchronous(2, 2);
    job.replicas = 2;
    CHECK(train_job(job, hooks, options).hash == ends[0].hash);
  }

  TEST_CASE("parameter servers: one asynchronous worker takes one device's steps, bit for bit") {
    const auto options = options_for(7);
    // Not with two optimisers: the second's gradients are of the values that the step began with.
    for (const char* kind : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "groups"}) {
      CAPTURE(kind);
      const ServerHooks hooks(kind);
      const auto expected = train_alone(*troupe::make_one_device({}), hooks, options);
      Job job = asynchronous(1, 2);
      const auto end = train_job(job, hooks, options);
      CHECK(end.hash == expected.hash);
      CHECK(end.history.train->losses == expected.history.train->losses);
    }
  }

  TEST_CASE("parameter servers: three asynchronous workers take exactly so many steps") {
    const ServerHooks hooks("adam");
    for (const std::int64_t steps : {1, 2, 20}) {
      CAPTURE(steps);
      const auto end = train_job(asynchronous(3, 2), hooks, options_for(steps));
      CHECK(end.step == steps);
      CHECK(end.steps_of_all == steps);
      CHECK(end.servers["updates"] == steps);
      CHECK(total(end.servers["staleness"]) == static_cast<double>(steps));
    }
    // Epochs are counted in updates of all: 22 examples in batches of 8 for each of 3 workers are
    // one step of the plan, in which each has some.
    auto options = options_for(1);
    options.max_steps.reset();
    options.epochs = 4;
    CHECK(train_job(asynchronous(3, 1), hooks, options).steps_of_all == 12);
  }

  TEST_CASE("parameter servers: resumed equals uninterrupted, also with other numbers of servers") {
    for (const char* kind : {"sgd", "adam"}) {
      CAPTURE(kind);
      const ServerHooks hooks(kind);
      const TempDir whole;
      const auto expected = train_job(synchronous(2, 2), hooks, options_in(whole, 7));
      for (const int servers : {1, 2, 3}) {
        for (const std::int64_t stop : {3, 5}) {  // the end of an epoch, and the middle of one
          CAPTURE(servers);
          CAPTURE(stop);
          const TempDir dir;
          CHECK(train_job(synchronous(2, 2), hooks, options_in(dir, stop)).step == stop);
          const auto end = train_job(synchronous(2, servers), hooks, options_in(dir, 7));
          CHECK(end.hash == expected.hash);
          CHECK(end.step == 7);
        }
      }
    }
  }

  TEST_CASE("parameter servers: a checkpoint goes on without servers, and the other way round") {
    const ServerHooks hooks("adam");
    const auto mirrored = [&](const TempDir& dir, std::int64_t steps) {
      return train_alone(*troupe::make_mirrored(mirrored_options(2)), hooks,
                         options_in(dir, steps));
    };
    const TempDir whole;
    const auto expected = mirrored(whole, 7);
    const TempDir first;
    (void)train_job(synchronous(2, 2), hooks, options_in(first, 4));
    CHECK(mirrored(first, 7).hash == expected.hash);
    const TempDir second;
    (void)mirrored(second, 4);
    CHECK(train_job(synchronous(2, 2), hooks, options_in(second, 7)).hash == expected.hash);
    // From asynchronous training: its place in the data is that of so many updates.
    const TempDir third;
    (void)train_job(asynchronous(2, 2), hooks, options_in(third, 5));
    CHECK(mirrored(third, 7).step == 7);
    CHECK(train_job(asynchronous(3, 1), hooks, options_in(third, 12)).step == 12);
  }

  TEST_CASE("parameter servers: asynchronous checkpoints are of one moment") {
    // Every update adds the same to every parameter: a snapshot between updates has them equal.
    class Counting final : public troupe::testing::TinyHooks {
     public:
      Counting() : TinyHooks(72) {}
      [[nodiscard]] troupe::Trainable create_model() const override {
        const auto net = std::make_shared<torch::nn::Module>();
        std::vector<at::Tensor> all;
        for (const char* name : {"a", "b", "c", "d"}) {
          all.push_back(net->register_parameter(name, torch::zeros({3})));
        }
        return {net, std::make_shared<torch::optim::SGD>(all, 1.0)};
      }
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        at::Tensor sum = torch::zeros({batch.examples()});
        for (const auto& [name, tensor] : replica.parameters()) sum = sum - tensor.sum();
        const auto loss = replica.global_mean(sum);
        replica.apply_gradients(loss);
        return loss;
      }
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                       const troupe::Batch& batch) const override {
        replica.metric("absolute_error").update(batch.fields[0]);
        return replica.global_mean(torch::zeros({batch.examples()}));
      }
    };
    class Watch final : public troupe::SavingListener {
     public:
      explicit Watch(int& right) : right_(right) {}
      bool after_save(const troupe::SavedCheckpoint& saved) override {
        bool equal = true;
        for (const auto& [name, tensor] : troupe::read_weights(saved.path)) {
          equal = equal && tensor.eq(static_cast<float>(saved.step)).all().item<bool>();
        }
        right_ = equal ? right_ + 1 : -1000;
        return false;
      }

     private:
      int& right_;
    };
    const Counting hooks;
    int right = 0;
    const TempDir dir;
    auto options = options_in(dir, 60);
    options.save_checkpoints_steps = 5;
    Job job = asynchronous(3, 2);
    job.options.correct_staleness = false;  // or late updates would add less
    const auto end = train_job(job, hooks, options, [&](int rank) {
      troupe::Callbacks callbacks;
      if (rank == 0) callbacks.listeners.push_back(std::make_shared<Watch>(right));
      return callbacks;
    });
    CHECK(end.step == 60);
    CHECK(right >= 2);
  }

  TEST_CASE("parameter servers: rows of a table give one device's result and travel alone") {
    const auto options = options_for(6);
    for (const char* kind : {"sgd", "adagrad", "momentum"}) {
      CAPTURE(kind);
      const TableHooks hooks(1000, kind);
      const auto expected = train_alone(*troupe::make_one_device({}), hooks, options);
      Job job = asynchronous(1, 2);
      job.options.min_shard_bytes = 1024;
      const troupe::testing::CapturedLog log;
      const auto end = train_job(job, hooks, options);
      // With momentum one device adds sparse parts one after the other, and rounds differently.
      CHECK((end.hash == expected.hash) == (std::string(kind) != "momentum"));
      CHECK(end.test.losses[0].second ==
            doctest::Approx(expected.test.losses[0].second).epsilon(1e-5));
      const auto& chief = end.servers["chief"];
      const auto dense = chief["dense_bytes_per_step"].get<double>();
      CHECK(dense == 1000 * 16 + 5 * 4);
      const auto pushed = chief["pushed_bytes_per_step"].get<double>();
      CHECK((pushed < dense / 10) == (std::string(kind) != "momentum"));
      CHECK(log.has("they travel whole") == (std::string(kind) == "momentum"));
    }
    // The table may grow as it likes.
    const auto pushed = [&](std::int64_t rows) {
      const auto end = train_job(asynchronous(1, 1), TableHooks(rows, "sgd"), options);
      return end.servers["chief"]["pushed_bytes_per_step"].get<std::int64_t>();
    };
    CHECK(pushed(10'000) == pushed(1000));
  }

  TEST_CASE("parameter servers: the chief's stop ends all, another worker's itself alone") {
    const ServerHooks hooks("adam");
    const auto stop_on = [&](int stopping, std::int64_t max_steps) {
      return train_job(asynchronous(3, 1), hooks, options_for(max_steps), [&](int rank) {
        troupe::Callbacks callbacks;
        const int steps = rank == stopping ? 3 : 1'000'000;
        callbacks.actions.push_back(std::make_shared<StopAfter>(steps));
        return callbacks;
      });
    };
    const auto chief = stop_on(0, 1'000'000);
    CHECK(chief.history.steps == 3);
    CHECK(chief.history.reason == "the test asked for it");
    const auto other = stop_on(2, 40);
    CHECK(other.step == 40);
    CHECK(other.history.reason == "max_steps 40 is reached");
  }

  TEST_CASE("parameter servers: a worker that is lost leaves the rest at work") {
    const ServerHooks hooks("adam");
    for (const bool in_step : {false, true}) {
      CAPTURE(in_step);
      std::int64_t reached = 0;
      nlohmann::json facts;
      const auto options = options_for(60);
      const troupe::testing::CapturedLog log;
      const auto errors = troupe::testing::try_job(
          in_step ? synchronous(3, 2) : asynchronous(3, 2), hooks,
          [&](int rank, troupe::Strategy& strategy) {
            auto state = strategy.create_state(hooks, 1);
            const auto data = strategy.distribute(hooks.create_datasets(), {8, 1});
            if (rank == 2) {  // two steps, then it is gone without a word
              strategy.pace().start(state, *data.train, 0);
              for (int step = 0; step < 2; ++step) {
                if (!strategy.pace().next_step(state)) return;
                (void)strategy.run(
                    [&](auto& replica, const auto& batch) {
                      return hooks.train_step(replica, batch);
                    },
                    state, *data.train->epoch(0).begin());
              }
              return;
            }
            const auto history = troupe::train(strategy, hooks, state, data, options);
            if (rank == 0) {
              reached = state.step;
              facts = nlohmann::json::parse(strategy.pace().facts());
            }
            strategy.close();
          });
      for (const auto& error : errors) CHECK(troupe::testing::message_of(error) == "");
      CHECK(reached == 60);
      REQUIRE(facts["lost"].size() == 1);
      CHECK(facts["lost"][0].get<std::string>().find("worker/2 at step") == 0);
      CHECK(log.has("workers lost: worker/2"));
    }
  }

  TEST_CASE("parameter servers: training that not every worker can follow is refused at once") {
    troupe::StrategyOptions cluster;
    for (int rank = 1; rank < 7; ++rank) {
      cluster.cluster.members.push_back(
          {troupe::text("worker/", rank), troupe::Endpoint{"127.0.0.1", 1}});
    }
    cluster.cluster.servers = {{"ps/0", troupe::Endpoint{"127.0.0.1", 1}}};
    cluster.group.secret = troupe::testing::test_secret();
    const ServerHooks hooks("sgd");
    const auto strategy = troupe::make_parameter_server(cluster);
    const auto refused = [&](const troupe::TrainOptions& options, const char* message) {
      const auto data =
          strategy->distribute(hooks.create_datasets(), {options.batch_size, options.seed});
      troupe::TrainState state;
      CHECK_THROWS_WITH_AS((void)troupe::train(*strategy, hooks, state, data, options),
                           doctest::Contains(message), troupe::ConfigError);
    };
    // 22 examples over 7 workers are shares of 4, and nothing for the last.
    refused(options_for(10), "some of the 7 workers have none");
    troupe::TrainOptions cosine = options_for(10);
    cosine.batch_size = 3;
    cosine.max_steps.reset();
    cosine.steps = 10;
    cosine.schedule.kind = troupe::Schedule::cosine;
    refused(cosine, "cosine schedule with steps");
  }

  TEST_CASE("parameter servers: what does not go together is refused, with the way out") {
    const auto refused = [](const troupe::StrategyOptions& options, const char* message) {
      CHECK_THROWS_WITH_AS((void)troupe::make_parameter_server(options), doctest::Contains(message),
                           troupe::ConfigError);
    };
    troupe::StrategyOptions options;
    refused(options, "has no parameter servers");
    options.cluster.servers = {{"ps/0", troupe::Endpoint{"127.0.0.1", 1}}};
    options.cluster.members.push_back({"worker/1", troupe::Endpoint{"127.0.0.1", 2}});
    options.group.secret = troupe::testing::test_secret();
    auto clip = options;
    clip.step.clip_norm = 1;
    (void)troupe::make_parameter_server(clip);  // asynchronous: each worker's own gradient
    clip.servers.staleness_bound = 0;
    refused(clip, "--clip-norm with --staleness-bound 0");
    auto server = options;
    server.cluster.server = 0;
    refused(server, "serve_if_server");
    CHECK_FALSE(troupe::serve_if_server(ServerHooks("sgd"), options));
  }
}

}  // namespace parameter_server_test
