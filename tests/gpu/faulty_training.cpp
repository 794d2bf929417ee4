// A small training with dropout, and batch norm unless --no-norm is given, in which one step goes
// wrong in a chosen way. Its other flags are those of any program. Shapes: B examples in this
// replica's batch.
#include <csignal>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe.h"

namespace {

constexpr std::int64_t kExamples = 2000;
constexpr std::int64_t kClasses = 10;

struct Flags {
  std::string fault = "none";
  std::int64_t fault_step = 5;
  bool norm = true;

  std::vector<troupe::Flag> all() {
    return {
        troupe::flag("learning-rate"), troupe::flag("momentum"),
        troupe::flag("fault", &fault,
                     "none, nan-loss, nan-gradient, out-of-memory, label; kill: by SIGKILL"),
        troupe::flag("fault-step", &fault_step, "the step that goes wrong, from 1; kill: after it"),
        troupe::flag("norm", &norm, "batch norm, whose buffers change before a gradient is known")};
  }
};

enum class Fault { none, nan_loss, nan_gradient, out_of_memory, label, kill };

Fault fault_of(const std::string& name) {
  static const std::map<std::string, Fault> kFaults = {{"none", Fault::none},
                                                       {"nan-loss", Fault::nan_loss},
                                                       {"nan-gradient", Fault::nan_gradient},
                                                       {"out-of-memory", Fault::out_of_memory},
                                                       {"label", Fault::label},
                                                       {"kill", Fault::kill}};
  const auto found = kFaults.find(name);
  if (found != kFaults.end()) return found->second;
  throw troupe::ConfigError("--fault is '" + name + "'.",
                            "give none, nan-loss, nan-gradient, out-of-memory, label or kill.");
}

struct Net final : torch::nn::Module {
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
  torch::nn::BatchNorm2d norm{nullptr};  // null: without
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16 * 64, kClasses));

  explicit Net(bool with_norm) {
    if (with_norm) norm = register_module("norm", torch::nn::BatchNorm2d(16));
  }

  torch::Tensor forward(torch::Tensor x) {  // [B, 1, 8, 8]
    x = conv(x);                            // [B, 16, 8, 8]
    if (!norm.is_empty()) x = norm(x);
    return out(dropout(torch::relu(x).flatten(1)));  // [B, 10] logits
  }
};

/// Twice as much as before until the device has no more: whatever its size, a few calls.
[[noreturn]] void take_all_memory(const torch::Device& device) {
  std::vector<torch::Tensor> taken;
  for (std::int64_t bytes = std::int64_t{1} << 30;; bytes *= 2) {
    taken.push_back(torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device)));
  }
}

class FaultyHooks final : public troupe::Hooks {
 public:
  FaultyHooks(const troupe::Options& options, const Flags& flags)
      : options_(options), norm_(flags.norm) {}

  [[nodiscard]] troupe::LossSet create_losses() const override {
    return {{"cross_entropy", torch::nn::CrossEntropyLoss(
                                  torch::nn::CrossEntropyLossOptions().reduction(torch::kNone))}};
  }
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>(norm_);
    auto sgd = std::make_shared<torch::optim::SGD>(
        net->parameters(),
        torch::optim::SGDOptions(options_.train.learning_rate).momentum(options_.train.momentum));
    return {net, sgd};
  }
  [[nodiscard]] troupe::Splits create_datasets() const override {
    auto generator = at::detail::createCPUGenerator(/*seed=*/7);
    const auto x = torch::randn({kExamples, 1, 8, 8}, generator);
    const auto labels = torch::randint(kClasses, {kExamples}, generator, torch::kLong);
    return {std::make_shared<troupe::TensorDataset>(std::vector<torch::Tensor>{x, labels}), nullptr,
            nullptr};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    return faulty_step(replica, batch, Fault::none);
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto [x, labels] = batch.unpack<2>();
    return mean_loss(replica, x, labels);
  }
  static troupe::StepResult faulty_step(troupe::Replica& replica, const troupe::Batch& batch,
                                        Fault fault) {
    const auto [x, labels] = batch.unpack<2>();
    if (fault == Fault::out_of_memory) take_all_memory(x.device());
    auto loss = mean_loss(replica, x, fault == Fault::label ? labels + kClasses : labels);
    if (fault == Fault::nan_loss) loss = loss * std::numeric_limits<double>::quiet_NaN();
    // The root of 0 is finite, its derivative is not.
    if (fault == Fault::nan_gradient) loss = loss + (loss * 0).sqrt();
    replica.apply_gradients(loss);
    return loss;
  }

 private:
  static torch::Tensor mean_loss(troupe::Replica& replica, const torch::Tensor& x,
                                 const torch::Tensor& labels) {
    const auto logits = replica.model<Net>().forward(x);
    return replica.global_mean(replica.loss("cross_entropy")(logits, labels));
  }

  const troupe::Options options_;
  const bool norm_;
};

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    Flags flags;
    const troupe::Options options =
        troupe::parse_options(argc, argv, flags.all(),
                              {"faulty_training",
                               "A small training in which one step goes wrong.",
                               {"--fault nan-loss --fault-step 5"},
                               true});
    const Fault fault = fault_of(flags.fault);
    const FaultyHooks hooks(options, flags);
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, options.train.seed);
    const auto data = strategy->distribute(hooks, options.train.batches());
    troupe::TrainingRun run(*strategy, hooks, state, data, options.train);
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) {
        const Fault now = run.step_number() + 1 == flags.fault_step ? fault : Fault::none;
        run.step(batch, [now](troupe::Replica& replica, const troupe::Batch& part) {
          return FaultyHooks::faulty_step(replica, part, now);
        });
        if (now == Fault::kill) std::raise(SIGKILL);
      }
    }
    const auto history = run.finish();
    troupe::summarize(*strategy, state, history, std::nullopt, options.train);
    strategy->close();
  });
}
