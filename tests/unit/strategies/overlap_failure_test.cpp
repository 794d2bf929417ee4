// Failures while gradients travel: the same as after backward, for everybody and at once.
#include <limits>
#include <mutex>

#include "tests/unit/strategies/overlap_runs.h"
#include "troupe/core/failure.h"

namespace overlap_failure_test {

using troupe::Batch;
using troupe::Overlap;
using troupe::Replica;
using troupe::StepResult;
using namespace troupe::testing;  // NOLINT: a test

namespace {

/// Of two workers that train.
RankErrors errors_of(const Deep& hooks, Overlap overlap = Overlap::on) {
  return try_workers(
      2, [&](int, troupe::Strategy& strategy) { (void)train_with(strategy, hooks); },
      [&](troupe::StrategyOptions& options) {
        as({overlap, 64})(options);
        // A worker that waits for the other one does not end in the time that ctest gives.
        options.group.collective_timeout = std::chrono::minutes(10);
      });
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("overlap: a gradient that is not finite stops all workers before the step") {
    for (const Overlap overlap : {Overlap::on, Overlap::off}) {
      for (const float bad : {std::nanf(""), 3e38F}) {  // the second one overflows in the sum
        CAPTURE(bad);
        class Poisoned final : public Deep {
         public:
          explicit Poisoned(float bad) : bad_(bad) {}
          [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
            auto loss = forward(replica, batch);
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
        for (const auto& error : errors_of(Poisoned(bad), overlap)) {
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
    const auto errors = errors_of(Throws());
    CHECK(message_of(errors[1]).find("no further") != std::string::npos);
    CHECK(message_of(errors[0]).find("no further") != std::string::npos);
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
    const auto errors = errors_of(Stops());
    CHECK(message_of(errors[0]).find("seen by this worker") != std::string::npos);
    CHECK(message_of(errors[1]).find("seen by this worker") != std::string::npos);
  }

  TEST_CASE("overlap: workers that were given different ways do not start") {
    const auto errors = try_workers(
        2, [](int, troupe::Strategy& strategy) { (void)strategy.create_state(Deep(), 1); },
        [](auto& options) {
          options.buckets.overlap = options.cluster.rank == 0 ? Overlap::on : Overlap::off;
        });
    for (const auto& error : errors) {
      CHECK(message_of(error).find("--overlap") != std::string::npos);
    }
  }
}

}  // namespace overlap_failure_test
