// A program whose step is wrong in the way that --wrong names. With one replica most of them train
// rightly, or seem to.
#include "cli/options.h"
#include "cli/run_main.h"
#include "servers/parameter_server.h"
#include "tests/support/tiny_hooks.h"
#include "train/loop.h"
#include "train/make_strategy.h"

class WrongHooks final : public troupe::testing::TinyHooks {
 public:
  explicit WrongHooks(std::string wrong) : wrong_(std::move(wrong)) {}

  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    const auto y = replica.model<torch::nn::LinearImpl>().forward(batch.fields[0]);
    const auto mean = replica.loss("squared_error")(y, batch.fields[1]).mean();
    if (wrong_ == "local-mean") {
      replica.apply_gradients(mean);
      return mean;
    }
    if (wrong_ == "result") {
      replica.apply_gradients(loss);
      return mean;
    }
    if (wrong_ == "own-step") {
      loss.backward();
      replica.optimizer().step();
      return loss;
    }
    if (wrong_ == "shapes") (void)torch::mm(batch.fields[0], torch::ones({3, 3}));
    if (wrong_ != "nothing-applied") replica.apply_gradients(loss);
    if (wrong_ == "weight-by-rank" && ++steps_ == 5 && replica.place().index == 1) {
      const torch::NoGradGuard no_grad;
      replica.parameters()[0].second.add_(1e-3);
    }
    return loss;
  }

 private:
  std::string wrong_;
  mutable int steps_ = 0;  // of this worker's one replica
};

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    std::string wrong;
    const troupe::Options options =
        troupe::parse_options(argc, argv, {troupe::flag("wrong", &wrong, "what is wrong")});
    const WrongHooks hooks(wrong);
    if (troupe::serve_if_server(hooks, options.strategy)) return;
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
    (void)troupe::train(*strategy, hooks, state, data, options.train);
    strategy->close();
  });
}
