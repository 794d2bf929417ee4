// What a program of LibTorch alone needs until its first tensor, and until the first step of the
// network of examples/mnist: the part of a start that no framework above LibTorch can save.
//   first_step tensor|step
// Prints a line with that word, and waits for the end of its input. bench/start_up.py starts it.
#include <torch/torch.h>

#include <cstdio>
#include <string>

namespace {

void take_step() {
  namespace nn = torch::nn;
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 32, 3)), nn::ReLU(), nn::MaxPool2d(2),
                     nn::Flatten(), nn::Linear(32 * 13 * 13, 64), nn::ReLU(), nn::Linear(64, 10));
  torch::optim::SGD sgd(net->parameters(), 0.01);
  const torch::Tensor scores = net->forward(torch::rand({64, 1, 28, 28}));
  nn::functional::cross_entropy(scores, torch::zeros({64}, torch::kLong)).backward();
  sgd.step();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string until = argc == 2 ? argv[1] : "";
  if (until != "tensor" && until != "step") {
    std::fputs("This program is a part of a benchmark. Fix: run bench/start_up.py.\n", stderr);
    return 2;
  }
  torch::set_num_threads(1);
  const torch::Tensor made = torch::ones({2}) + 1;
  if (until == "step") take_step();
  std::printf("%s: %g\n", until.c_str(), made[0].item<double>());
  std::fflush(stdout);
  (void)std::getchar();
}
