// Gradients that travel while backward computes: the same bits as after it, whatever the buckets,
// and the same failures. Ranks as threads over real loopback sockets.
#include <limits>
#include <mutex>

#include "strategies/one_device.h"
#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"

using troupe::Batch;
using troupe::Overlap;
using troupe::Replica;
using troupe::StepResult;
using troupe::StrategyOptions;
using troupe::text;
using troupe::testing::CapturedLog;
using troupe::testing::message_of;
using troupe::testing::options_of;
using troupe::testing::Outcome;
using troupe::testing::TempDir;
using troupe::testing::train_with;

namespace {

struct Wish {
  Overlap overlap = Overlap::on;
  std::int64_t bytes = 256;
  int size = 2;
  std::int64_t accumulate = 1;
};

StrategyOptions options_for(const Wish& wish, int rank, std::uint16_t port) {
  StrategyOptions options = options_of(rank, wish.size, port);
  options.buckets.overlap = wish.overlap;
  options.buckets.bytes = wish.bytes;
  options.buckets.first_bytes = 64;
  options.step.accumulate = wish.accumulate;
  return options;
}

/// Four layers, so several buckets; beside them one that the loss uses where `uses_side` says.
class Deep : public troupe::testing::TinyHooks {
 public:
  struct Net final : torch::nn::Module {
    Net() {
      const std::array<std::int64_t, 5> widths = {1, 7, 9, 5, 1};
      for (std::size_t i = 0; i < 4; ++i) {
        layers.push_back(
            register_module(text("layer", i), torch::nn::Linear(widths[i], widths[i + 1])));
      }
      side = register_module("side", torch::nn::Linear(1, 1));
      const torch::NoGradGuard no_grad;
      double value = 0;
      for (auto& parameter : parameters()) {
        auto flat = parameter.view(-1);
        for (std::int64_t i = 0; i < flat.numel(); ++i) flat[i] = std::sin(value += 0.7) / 3;
      }
    }
    at::Tensor forward(at::Tensor x) {
      for (auto& layer : layers) x = torch::tanh(layer->forward(x));
      return x;
    }
    std::vector<torch::nn::Linear> layers;
    torch::nn::Linear side{nullptr};
  };

  Deep() : TinyHooks(10) {}
  [[nodiscard]] troupe::Trainable create_model() const override {
    const auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
                                                     torch::optim::SGDOptions(0.05).momentum(0.9))};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const auto loss = loss_of(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    return loss_of(replica, batch);
  }

 protected:
  [[nodiscard]] virtual bool uses_side(const Replica&) const { return false; }
  [[nodiscard]] at::Tensor loss_of(Replica& replica, const Batch& batch) const {
    const auto [x, target] = batch.unpack<2>();
    auto& net = replica.model<Net>();
    auto y = net.forward(x);
    if (uses_side(replica)) y = y + net.side(x);
    replica.metric("absolute_error").update((y - target).abs());
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }
};

/// What every rank ends with.
std::vector<Outcome> train_deep(const Wish& wish, const troupe::Hooks& hooks = Deep(),
                                std::int64_t epochs = 4) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(wish.size));
  const auto port = troupe::testing::free_port();
  troupe::testing::run_ranks(wish.size, [&](int rank) {
    const auto strategy = troupe::make_multi_worker(options_for(wish, rank, port));
    outcomes[static_cast<std::size_t>(rank)] = train_with(*strategy, hooks, epochs);
  });
  return outcomes;
}

void check_equal(const Wish& wish, const Outcome& expected, const troupe::Hooks& hooks = Deep(),
                 std::int64_t epochs = 4) {
  CAPTURE(static_cast<int>(wish.overlap));
  CAPTURE(wish.bytes);
  CAPTURE(wish.size);
  for (const Outcome& outcome : train_deep(wish, hooks, epochs)) {
    CHECK(outcome.hash == expected.hash);
    CHECK(outcome.losses == expected.losses);
  }
}

/// Counts the sums of gradients by bucket.
class Counting final : public troupe::detail::Engine {
 public:
  Counting(std::unique_ptr<Engine> engine, std::vector<std::string>& sums)
      : engine_(std::move(engine)), sums_(sums) {}
  [[nodiscard]] const char* name() const override { return engine_->name(); }
  [[nodiscard]] bool is_exact() const override { return engine_->is_exact(); }
  [[nodiscard]] bool can_overlap() const override { return engine_->can_overlap(); }
  void all_reduce(const at::Tensor& flat, const troupe::detail::Summand& summand) override {
    sums_.push_back(summand.what);
    engine_->all_reduce(flat, summand);
  }

 private:
  std::unique_ptr<Engine> engine_;
  std::vector<std::string>& sums_;
};

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("overlap: on, off and automatic, with buckets of any size, end with the same bits") {
    for (const int size : {2, 3}) {
      const Outcome expected = train_deep({Overlap::off, 256, size})[0];
      REQUIRE(expected.losses.size() == 12);
      CHECK(expected.losses.back() < expected.losses.front());
      for (const std::int64_t bytes : {4, 64, 256, 1 << 20}) {
        check_equal({Overlap::on, bytes, size}, expected);
      }
    }
    // Long enough for the verdict, after 35 steps.
    const Outcome expected = train_deep({Overlap::off}, Deep(), 13)[0];
    check_equal({Overlap::automatic}, expected, Deep(), 13);
  }

  TEST_CASE("overlap: buckets travel from the second step on, the last layers' first") {
    std::vector<std::string> sums;
    const auto port = troupe::testing::free_port();
    troupe::testing::run_ranks(2, [&](int rank) {
      std::vector<std::string> others;
      std::vector<std::string>& own = rank == 0 ? sums : others;
      const auto strategy =
          troupe::make_multi_worker(options_for({Overlap::on, 64}, rank, port),
                                    [&own](std::unique_ptr<troupe::detail::Engine> engine) {
                                      return std::make_unique<Counting>(std::move(engine), own);
                                    });
      (void)train_with(*strategy, Deep(), 1);
    });
    // One sum in the first step, the order, then every bucket in the two that follow.
    REQUIRE(sums.size() > 6);
    CHECK(sums[0].find("bucket") == std::string::npos);
    CHECK(sums[1].find("the order of apply_gradients") == 0);
    CHECK(sums[2].find("bucket 1 of ") != std::string::npos);
    CHECK((sums.size() - 2) % 2 == 0);
    CHECK(sums.back().find(text("bucket ", (sums.size() - 2) / 2, " of ")) != std::string::npos);
  }

  TEST_CASE("overlap: automatic says once what it chose, and with which figures") {
    const CapturedLog log;
    (void)train_deep({Overlap::automatic}, Deep(), 13);
    CHECK(log.count("gradients are summed ") == 2);  // by ring; and the verdict, by the chief
    CHECK(log.count(" ms overlapped, ") == 1);
  }

  TEST_CASE("overlap: in parts, with a part that has no example, too") {
    for (const std::int64_t parts : {2, 3}) {
      const Outcome expected = train_deep({Overlap::off, 256, 3, parts})[0];
      check_equal({Overlap::on, 64, 3, parts}, expected);
    }
  }

  TEST_CASE("overlap: parameters that nobody, or only one worker, used") {
    class OnOne final : public Deep {
     public:
      explicit OnOne(int from) : from_(from) {}
      [[nodiscard]] bool uses_side(const Replica& replica) const override {
        return replica.place().index >= from_;
      }

     private:
      int from_;
    };
    for (const int from : {1, 2}) {  // the second one; nobody
      CAPTURE(from);
      const OnOne hooks(from);
      const Outcome expected = train_deep({Overlap::off}, hooks)[0];
      check_equal({Overlap::on, 64}, expected, hooks);
    }
    class CheckSide final : public Deep {
     public:
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        auto result = Deep::train_step(replica, batch);
        if (replica.model<Net>().side->weight.grad().defined()) {
          throw std::runtime_error("a gradient for a parameter that nobody used");
        }
        return result;
      }
    };
    CHECK_NOTHROW((void)train_deep({}, CheckSide()));
  }

  TEST_CASE("overlap: two optimisers, one twice in a step") {
    class Gan final : public Deep {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        const auto one = std::make_shared<Net>();
        const auto two = std::make_shared<Net>();
        return troupe::Trainable()
            .add_model("model", one)
            .add_model("second", two)
            .add_optimizer("optimizer",
                           std::make_shared<torch::optim::SGD>(one->parameters(), 0.05))
            .add_optimizer("other", std::make_shared<torch::optim::Adam>(
                                        two->parameters(), torch::optim::AdamOptions(0.01)));
      }
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        const auto both = [&] {
          const auto y =
              replica.model<Net>("second").forward(replica.model<Net>().forward(batch.fields[0]));
          return replica.global_mean(replica.loss("squared_error")(y, batch.fields[1]));
        };
        replica.apply_gradients(both(), "optimizer");
        replica.apply_gradients(both(), "other");
        const auto loss = both();
        replica.apply_gradients(loss, "optimizer");
        return loss;
      }
    };
    const Outcome expected = train_deep({Overlap::off}, Gan())[0];
    CHECK(expected.hash != train_deep({Overlap::off}, Gan(), 1)[0].hash);
    check_equal({Overlap::on, 64}, expected, Gan());
  }

  TEST_CASE("overlap: a gradient that is not finite stops all workers before the step") {
    for (const Overlap overlap : {Overlap::on, Overlap::off}) {
      for (const float bad : {std::nanf(""), 3e38F}) {  // the second one overflows in the sum
        CAPTURE(bad);
        class Poisoned final : public Deep {
         public:
          explicit Poisoned(float bad) : bad_(bad) {}
          [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
            auto loss = loss_of(replica, batch);
            auto& weight = replica.model<Net>().layers[3]->weight;
            const bool mine = std::isfinite(bad_) || replica.place().index == 1;
            const bool third = ++calls_ > 4;  // of two ranks, which meet in every step
            if (third && mine) loss = loss + (weight * bad_).sum();
            const auto before = weight.detach().clone();
            try {
              replica.apply_gradients(loss);
            } catch (const troupe::NonFiniteError&) {
              if (!torch::equal(before, weight)) throw std::runtime_error("a step was taken");
              throw;
            }
            return loss;
          }

         private:
          float bad_;
          mutable std::atomic<int> calls_{0};
        };
        const auto port = troupe::testing::free_port();
        const Poisoned hooks(bad);
        const auto errors = troupe::testing::try_ranks(2, [&](int rank) {
          const auto strategy = troupe::make_multi_worker(options_for({overlap, 64}, rank, port));
          (void)train_with(*strategy, hooks);
        });
        for (const auto& error : errors) {
          const std::string message = message_of(error);
          CAPTURE(message);
          CHECK(message.find("the gradient of parameter \"layer3.weight\" is not finite") !=
                std::string::npos);
        }
      }
    }
  }

  TEST_CASE("overlap: an exception in the midst of backward is everybody's reason, at once") {
    class Throws final : public Deep {
     public:
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        auto& net = replica.model<Net>();
        // The last layers' gradients are under way by then.
        auto hidden = torch::tanh(net.layers[0](batch.fields[0]));
        if (replica.place().index == 1 && ++steps_ == 3) {
          hidden.register_hook([](const at::Tensor& gradient) -> at::Tensor {
            if (gradient.defined()) throw std::runtime_error("no further");
            return gradient;
          });
        }
        for (std::size_t i = 1; i < 4; ++i) hidden = torch::tanh(net.layers[i](hidden));
        const auto loss =
            replica.global_mean(replica.loss("squared_error")(hidden, batch.fields[1]));
        replica.apply_gradients(loss);
        return loss;
      }

     private:
      mutable int steps_ = 0;  // rank 1's
    };
    const auto start = std::chrono::steady_clock::now();
    const auto port = troupe::testing::free_port();
    const Throws hooks;
    const auto errors = troupe::testing::try_ranks(2, [&](int rank) {
      const auto strategy = troupe::make_multi_worker(options_for({Overlap::on, 64}, rank, port));
      (void)train_with(*strategy, hooks);
    });
    CHECK(message_of(errors[1]).find("no further") != std::string::npos);
    CHECK(message_of(errors[0]).find("no further") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));  // the limit is 20
  }

  TEST_CASE(
      "overlap: a failure that is no abort, with a bucket under way, does not make the "
      "others wait") {
    class Stops final : public Deep {
     public:
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        if (replica.place().index == 0 && ++steps_ == 3) {
          auto& net = replica.model<Net>();
          auto hidden = torch::tanh(net.layers[0](batch.fields[0]));
          hidden.register_hook([](const at::Tensor& gradient) -> at::Tensor {
            if (gradient.defined()) throw troupe::NonFiniteError("seen by this worker.", "look.");
            return gradient;
          });
          for (std::size_t i = 1; i < 4; ++i) hidden = torch::tanh(net.layers[i](hidden));
          replica.apply_gradients(replica.global_mean(hidden.squeeze(1)));
        }
        return Deep::train_step(replica, batch);
      }

     private:
      mutable int steps_ = 0;  // rank 0's
    };
    const auto start = std::chrono::steady_clock::now();
    const auto port = troupe::testing::free_port();
    const Stops hooks;
    const auto errors = troupe::testing::try_ranks(2, [&](int rank) {
      const auto strategy = troupe::make_multi_worker(options_for({Overlap::on, 64}, rank, port));
      (void)train_with(*strategy, hooks);
    });
    CHECK(message_of(errors[0]).find("seen by this worker") != std::string::npos);
    CHECK(message_of(errors[1]).find("seen by this worker") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
  }

  TEST_CASE("overlap: interrupted at every step equals uninterrupted, bit for bit") {
    const auto trained_in = [](const TempDir& dir, std::int64_t steps, Overlap overlap) {
      std::vector<std::string> hashes(2);
      const auto port = troupe::testing::free_port();
      troupe::testing::run_ranks(2, [&](int rank) {
        const auto strategy = troupe::make_multi_worker(options_for({overlap, 64}, rank, port));
        const Deep hooks;
        troupe::TrainOptions options;
        options.model_dir = dir.path().string();
        options.max_steps = steps;
        options.batch_size = 4;
        options.progress = false;
        options.log_every = 0;
        auto state = strategy->create_state(hooks, options.seed);
        const auto data = strategy->distribute(hooks.create_datasets(), {4, options.seed});
        (void)troupe::train(*strategy, hooks, state, data, options, {});
        hashes[static_cast<std::size_t>(rank)] = troupe::common_parameter_hash(*strategy, state);
        strategy->close();
      });
      return hashes[0];
    };
    const TempDir whole;
    const std::string expected = trained_in(whole, 5, Overlap::off);
    for (std::int64_t stop = 1; stop < 5; ++stop) {
      CAPTURE(stop);
      const TempDir dir;
      (void)trained_in(dir, stop, Overlap::on);
      CHECK(trained_in(dir, 5, Overlap::on) == expected);
    }
  }

  TEST_CASE("overlap: workers that were given different ways do not start") {
    const auto port = troupe::testing::free_port();
    const auto errors = troupe::testing::try_ranks(2, [&](int rank) {
      const Wish wish{rank == 0 ? Overlap::on : Overlap::off};
      const auto strategy = troupe::make_multi_worker(options_for(wish, rank, port));
      (void)strategy->create_state(Deep(), 1);
    });
    for (const auto& error : errors) {
      CHECK(message_of(error).find("--overlap") != std::string::npos);
    }
  }
}
