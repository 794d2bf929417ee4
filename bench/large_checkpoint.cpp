// Memory that saving and resuming take, for a model with one file of any size: a line of two
// parameters beside frozen ones that fill MIB. Start once per worker, then again with more steps to
// resume from the same directory:
//   for r in 0 1; do large_checkpoint 2048 $r 2 4711 /tmp/run 2 & done; wait
//   for r in 0 1; do large_checkpoint 2048 $r 2 4711 /tmp/run 4 & done; wait
// Each prints what it held when the model was made, its peak, and the hash of its parameters.
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/tiny_hooks.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/text.h"
#include "troupe/strategies/kinds/multi_worker.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/train/loop.h"

namespace {

class LargeHooks final : public troupe::testing::TinyHooks {
 public:
  explicit LargeHooks(std::int64_t values) : values_(values) {}

  struct Net final : torch::nn::Module {
    explicit Net(std::int64_t values)
        : frozen(register_parameter("frozen", torch::full({values}, 0.5F), false)) {}
    torch::Tensor frozen;
    torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
  };

  [[nodiscard]] troupe::Trainable create_model() const override {
    const auto net = std::make_shared<Net>(values_);
    const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.01).momentum(0.9);
    return {net, std::make_shared<torch::optim::SGD>(net->line->parameters(), options)};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = validation_step(replica, batch);
    replica.apply_gradients(loss.losses.front().second);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<Net>().line(x);
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }

 private:
  std::int64_t values_;
};

/// "VmRSS" or "VmHWM" of this process, in MiB.
std::int64_t memory_of_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) / 1024;
  }
  return -1;
}

void run(char** argv) {
  const std::int64_t values = std::stoll(argv[1]) << 18;
  troupe::StrategyOptions options;
  options.cluster.rank = std::stoi(argv[2]);
  options.cluster.members.clear();
  for (int i = 0; i < std::stoi(argv[3]); ++i) {
    options.cluster.members.push_back({troupe::text("worker/", i), std::nullopt});
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(argv[4]));
  options.cluster.members[0].address = troupe::Endpoint{"127.0.0.1", port};
  troupe::TrainOptions train;
  train.model_dir = argv[5];
  train.max_steps = std::stoll(argv[6]);
  train.save_checkpoints_steps = 1000;
  train.batch_size = 4;

  const LargeHooks hooks(values);
  const auto strategy = troupe::make_multi_worker(options);
  auto state = strategy->create_state(hooks, 1);
  const std::int64_t made = memory_of_process("VmRSS");
  auto splits = hooks.create_datasets();
  splits.validation = nullptr;
  const auto data = strategy->distribute(splits, {train.batch_size, 1});
  const auto history = troupe::train(*strategy, hooks, state, data, train);
  const std::string hash = troupe::common_parameter_hash(*strategy, state);
  std::printf("rank %d: step %lld, %lld MiB with the model, %lld MiB at the most, hash %s\n",
              strategy->rank(), static_cast<long long>(state.step), static_cast<long long>(made),
              static_cast<long long>(memory_of_process("VmHWM")), hash.c_str());
  strategy->close();
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    if (argc != 7) {
      throw troupe::ConfigError("usage: large_checkpoint MIB RANK WORKERS PORT DIR STEPS.",
                                "see bench/large_checkpoint.cpp.");
    }
    run(argv);
  });
}
