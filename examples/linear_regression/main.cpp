// examples/linear_regression/main.cpp -- a whole program on one page: y = 3 x1 - 2 x2 + 1 from
// noisy examples. Run it alone or under `troupe run --workers N --`: the result is the same.
// Shapes: N examples in all, B in this replica's batch.
#include "troupe.h"

class LineHooks final : public troupe::Hooks {
 public:
  explicit LineHooks(const troupe::Options& options) : options_(options) {}

  troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const torch::Tensor& y, const torch::Tensor& target) {
               return (y - target).pow(2).squeeze(1);  // [B]
             }}};
  }
  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("absolute_error");
  }
  troupe::Trainable create_model() const override {
    torch::nn::Linear line(2, 1);
    return {line.ptr(),
            std::make_shared<torch::optim::SGD>(line->parameters(), options_.train.learning_rate)};
  }
  troupe::Splits create_datasets() const override {
    // The same examples on every worker: the generator is started here, not taken as it stands.
    auto generator = at::detail::createCPUGenerator(/*seed=*/7);
    const auto x = torch::randn({1200, 2}, generator);
    const auto noise = torch::randn({1200, 1}, generator) * 0.01;
    const auto y = x.matmul(torch::tensor({{3.0F}, {-2.0F}})) + 1.0 + noise;
    const auto all = std::make_shared<troupe::TensorDataset>(std::vector<torch::Tensor>{x, y});
    return {troupe::take(all, 0, 1000), nullptr, troupe::take(all, 1000, 200)};
  }
  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"y", replica.model<torch::nn::LinearImpl>().forward(batch.fields[0])}};
  }

 private:
  torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) const {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<torch::nn::LinearImpl>().forward(x);  // [B, 1]
    replica.metric("absolute_error").update((y - target).abs());
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }
  const troupe::Options options_;
};

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options =
        troupe::parse_options(argc, argv, {troupe::flag("learning-rate")});
    troupe::run_job(LineHooks(options), options);  // template/main.cpp from here on
  });
}
