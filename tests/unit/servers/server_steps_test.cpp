// Steps that cannot be right with parameter servers, and end in the first one.
#include "tests/unit/strategies/server_runs.h"
#include "troupe/hooks/sync_batch_norm.h"

namespace server_steps_test {

using troupe::testing::asynchronous;
using troupe::testing::Job;
using troupe::testing::synchronous;
using troupe::testing::train_job;

TEST_SUITE("strategies") {
  TEST_CASE("parameter servers: steps that cannot be right end on every worker, and name why") {
    // SyncBatchNorm over workers that make one update together: no process has the sum.
    struct Net final : torch::nn::Module {
      torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 2));
      troupe::SyncBatchNorm norm = register_module("norm", troupe::SyncBatchNorm(2));
    };
    class Normed final : public troupe::testing::TinyHooks {
     public:
      explicit Normed(bool own_step) : TinyHooks(24), own_step_(own_step) {}
      [[nodiscard]] troupe::Trainable create_model() const override {
        auto net = std::make_shared<Net>();
        return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.1)};
      }
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const auto loss = validation_step(replica, batch).losses.front().second;
        if (own_step_) {
          loss.backward();
          replica.optimizer().step();
        }
        replica.apply_gradients(loss);
        return loss;
      }
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                       const troupe::Batch& batch) const override {
        auto& net = replica.model<Net>();
        const auto x = net.in(batch.fields[0]);
        replica.metric("absolute_error").update(batch.fields[0]);
        return replica.global_mean((own_step_ ? x : net.norm(x)).square().sum(1));
      }

     private:
      bool own_step_;
    };
    const auto first_error = [&](const Job& job, const troupe::Hooks& hooks) {
      try {
        (void)train_job(job, hooks, troupe::testing::quiet_options(2, 8));
      } catch (const std::exception& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(
        first_error(synchronous(2, 1), Normed(false)).find("SyncBatchNorm forward (2 channels)") !=
        std::string::npos);
    CHECK(first_error(synchronous(1, 1), Normed(false)) == "");
    CHECK(first_error(asynchronous(2, 1), Normed(false)) == "");
    for (const Job& job : {synchronous(2, 1), asynchronous(1, 1)}) {
      CHECK(first_error(job, Normed(true)).find("train_step changed parameter \"in.weight\"") !=
            std::string::npos);
    }
  }
}

}  // namespace server_steps_test
