// bench/simulated_step.cpp -- a training whose step costs a chosen time and no CPU: it sleeps, then
// trains one small layer. What is left is what the strategy itself costs; server_steps.py runs it.
// Shapes: B examples in this replica's batch, W the width of the layer.
#include <chrono>
#include <optional>
#include <thread>

#include "troupe.h"

class SimulatedHooks final : public troupe::Hooks {
 public:
  SimulatedHooks(std::chrono::milliseconds compute, std::int64_t width)
      : compute_(compute), width_(width) {}

  troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const torch::Tensor& y, const torch::Tensor& target) {
               return (y - target).pow(2).mean(1);  // [B]
             }}};
  }
  troupe::Trainable create_model() const override {
    torch::nn::Linear layer(width_, width_);
    return {layer.ptr(), std::make_shared<torch::optim::SGD>(layer->parameters(), 0.01)};
  }
  troupe::Splits create_datasets() const override {
    const auto x = torch::linspace(-1, 1, 1024 * width_).view({1024, width_});
    return {std::make_shared<troupe::TensorDataset>(std::vector<torch::Tensor>{x, x * 0.5}),
            nullptr, nullptr};
  }
  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    std::this_thread::sleep_for(compute_);
    const auto loss = validation_step(replica, batch);
    replica.apply_gradients(loss.losses.front().second);
    return loss;
  }
  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<torch::nn::LinearImpl>().forward(x);  // [B, W]
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }

 private:
  std::chrono::milliseconds compute_;
  std::int64_t width_;
};

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    std::int64_t compute_ms = 20;
    std::int64_t width = 64;
    const troupe::Options options = troupe::parse_options(
        argc, argv,
        {troupe::flag("compute-ms", &compute_ms, "how long a training step sleeps", {0, 60'000}),
         troupe::flag("width", &width, "of the layer that is trained", {1, 16'384})},
        {"simulated_step",
         "Trains with simulated compute, to measure what a strategy costs.",
         {"--compute-ms 20 --max-steps 200 --json-summary"},
         true});
    const SimulatedHooks hooks(std::chrono::milliseconds(compute_ms), width);
    if (troupe::serve_if_server(hooks, options.strategy)) return;
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, options.train.seed);
    const auto data = strategy->distribute(hooks.create_datasets(),
                                           {options.train.batch_size, options.train.seed});
    const auto history = troupe::train(*strategy, hooks, state, data, options.train);
    troupe::summarize(*strategy, state, history, std::nullopt, options.train);
    strategy->close();
  });
}
