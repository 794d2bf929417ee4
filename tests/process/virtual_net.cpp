// A small training with everything that could depend on the number of workers: dropout, batch norm
// with a counter, Adam, and a last batch of 3 examples. Its flags are those of any program.
// TEST_DEADLY_EXAMPLE=17 has whoever trains on that example killed. TEST_STEP_MS=8 has every step
// wait that long, so that what a test does meanwhile finds training under way on a fast machine.
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "tests/process/trainings.h"
#include "tests/support/eventually.h"
#include "troupe.h"
#include "troupe/data/split_mix.h"

namespace {

constexpr std::int64_t kExamples = 203;  // 5 batches of 40, and 3 examples
constexpr std::int64_t kClasses = 4;
constexpr float kDeadly = 12345;

struct Net final : torch::nn::Module {
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(4 * 64, kClasses));
  torch::Tensor forward(const torch::Tensor& x) {
    return out(dropout(torch::relu(norm(conv(x))).flatten(1)));
  }
};

class NetHooks final : public troupe::Hooks {
 public:
  explicit NetHooks(double rate) : rate_(rate) {}

  [[nodiscard]] troupe::LossSet create_losses() const override {
    return {{"cross_entropy", torch::nn::CrossEntropyLoss(
                                  torch::nn::CrossEntropyLossOptions().reduction(torch::kNone))}};
  }
  [[nodiscard]] troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Accuracy>("accuracy");
  }
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::Adam>(net->parameters(),
                                                      torch::optim::AdamOptions(rate_))};
  }
  [[nodiscard]] troupe::Splits create_datasets() const override {
    troupe::detail::SplitMix random(7);
    const at::Tensor images = torch::empty({kExamples, 1, 8, 8});
    const at::Tensor labels = torch::empty({kExamples}, torch::kLong);
    for (std::int64_t i = 0; i < images.numel(); ++i) images.data_ptr<float>()[i] = random.normal();
    for (std::int64_t i = 0; i < kExamples; ++i) {
      labels.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(random.below(kClasses));
    }
    if (const char* deadly = std::getenv("TEST_DEADLY_EXAMPLE"))
      images[std::atoi(deadly)] = kDeadly;
    const auto all =
        std::make_shared<troupe::TensorDataset>(std::vector<at::Tensor>{images, labels});
    return {all, troupe::take(all, 0, 50), troupe::take(all, 50, 101)};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    if (batch.fields[0].max().item<float>() == kDeadly) std::raise(SIGKILL);
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }
  [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                 const troupe::Batch& batch) const override {
    return {{"scores", replica.model<Net>().forward(batch.fields[0])}};
  }

 private:
  [[nodiscard]] static at::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [images, labels] = batch.unpack<2>();
    const auto scores = replica.model<Net>().forward(images);
    replica.metric("accuracy").update(scores, labels);
    return replica.global_mean(replica.loss("cross_entropy")(scores, labels));
  }

  double rate_;
};

std::chrono::milliseconds step_pause() {
  const char* milliseconds = std::getenv("TEST_STEP_MS");
  return std::chrono::milliseconds(milliseconds == nullptr ? 0 : std::atoi(milliseconds));
}

}  // namespace

int virtual_net(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(argc, argv);
    const NetHooks hooks(0.01);
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, options.train.seed);
    const auto data = strategy->distribute(hooks, options.train.batches());
    troupe::TrainingRun run(*strategy, hooks, state, data, options.train);
    // What the loop draws between steps is a part of the numbers, too.
    double& drawn = run.keep("drawn", 0);
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) {
        drawn += torch::rand({1}).item<double>();
        run.train_step(batch);
        troupe::testing::take_time(step_pause());
        drawn += torch::rand({1}).item<double>();
      }
      run.validate();
    }
    const auto history = run.finish();
    {
      const torch::NoGradGuard no_grad;
      state.replicas.front()->parameters().front().second.add_(drawn);
    }
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
  });
}
