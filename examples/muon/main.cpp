// examples/muon/main.cpp -- examples/mnist with an optimiser that LibTorch does not have.
#include "examples/mnist/mnist_hooks.h"
#include "examples/muon/muon.h"
#include "troupe.h"

namespace {

/// MNIST's hooks but for the optimiser: the hidden layers' matrices by Muon, the rest by its Adam.
class MuonHooks final : public MnistHooks {
 public:
  MuonHooks(const troupe::Options& options, double adam_learning_rate)
      : MnistHooks(options),
        learning_rate_(options.train.learning_rate),
        weight_decay_(options.train.weight_decay),
        adam_learning_rate_(adam_learning_rate) {}

  troupe::Trainable create_model() const override {
    const auto net = std::make_shared<Net>();
    const std::vector<torch::Tensor> matrices = {net->conv->weight, net->hidden->weight};
    const std::vector<torch::Tensor> others = {net->conv->bias, net->hidden->bias,
                                               net->output->weight, net->output->bias};
    const auto group = [this](const std::vector<torch::Tensor>& parameters, double rate,
                              bool orthogonal) {
      return torch::optim::OptimizerParamGroup(
          parameters, std::make_unique<MuonOptions>(
                          MuonOptions(rate).weight_decay(weight_decay_).orthogonal(orthogonal)));
    };
    return {net,
            std::make_shared<Muon>(std::vector<torch::optim::OptimizerParamGroup>{
                group(matrices, learning_rate_, true), group(others, adam_learning_rate_, false)})};
  }

 private:
  const double learning_rate_;
  const double weight_decay_;
  const double adam_learning_rate_;
};

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    double adam_learning_rate = 1e-3;
    const troupe::Options options = troupe::parse_options(
        argc, argv,
        {troupe::flag("learning-rate"), troupe::flag("weight-decay"), troupe::flag("data-dir"),
         troupe::flag("train-examples"),
         troupe::flag("adam-learning-rate", &adam_learning_rate,
                      "of biases and the last layer; --learning-rate is that of the matrices")},
        {"muon",
         "Trains a convolutional network to read handwritten digits, by Muon.",
         {"--epochs 2", "--epochs 2 --model-dir run1",
          "--epochs 1 --init-from run1 --model-dir run2"}});
    troupe::run_job(MuonHooks(options, adam_learning_rate), options);
  });
}
