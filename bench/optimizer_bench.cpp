// Adam's step, LibTorch's and the fused one by turns, on the parameters of the MLP that
// training_models.h trains: 25 million, in ten tensors. Prints the medians of both, and of what a
// worker does to compare its weights with the others', alone and with Adam's state.
//   bench_optimizer THREADS STEPS
#include <ATen/Parallel.h>
#include <torch/optim.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "bench/summary.h"
#include "troupe/strategies/gradients/optimizer_step.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/kinds/weight_comparison.h"

namespace {

std::vector<at::Tensor> make_parameters() {
  torch::manual_seed(1);
  std::vector<at::Tensor> parameters;
  std::int64_t in = 784;
  for (const std::int64_t out : {3072, 3072, 3072, 1024, 10}) {
    for (const at::Tensor& values : {torch::randn({out, in}), torch::randn({out})}) {
      parameters.push_back(values.detach().set_requires_grad(true));
      parameters.back().mutable_grad() = torch::randn(values.sizes());
    }
    in = out;
  }
  return parameters;
}

/// Seconds of one step.
template <class Step>
double time_of(const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<troupe::NamedTensor> named(const std::vector<at::Tensor>& tensors) {
  std::vector<troupe::NamedTensor> all;
  for (const at::Tensor& tensor : tensors) all.emplace_back("a tensor", tensor);
  return all;
}

void measure_comparison(torch::optim::Adam& adam, const std::vector<at::Tensor>& parameters,
                        int steps) {
  std::vector<at::Tensor> states;
  for (auto& [key, state] : adam.state()) {
    auto& own = static_cast<torch::optim::AdamParamState&>(*state);
    states.push_back(own.exp_avg());
    states.push_back(own.exp_avg_sq());
  }
  const auto alone = troupe::make_one_device({});
  const troupe::detail::Copies weights{"weights", {named(parameters)}};
  const troupe::detail::Copies saved{"optimiser states", {named(states)}};
  const auto compare = [&] { troupe::detail::compare_copies(*alone, weights, "in a benchmark"); };
  std::vector<double> weights_seconds;
  std::vector<double> all_seconds;
  for (int i = 0; i < steps; ++i) {
    weights_seconds.push_back(time_of(compare));
    all_seconds.push_back(time_of([&] {
      compare();
      troupe::detail::compare_copies(*alone, saved, "in a benchmark");
    }));
  }
  using namespace troupe::bench;
  std::cout << "comparing weights: " << time_text(summarize(weights_seconds))
            << ", with Adam's state: " << time_text(summarize(all_seconds)) << "\n";
}

int measure(int threads, int steps) {
  at::set_num_threads(threads);
  const auto by_operation = make_parameters();
  const auto by_block = make_parameters();
  torch::optim::Adam plain(by_operation, torch::optim::AdamOptions(1e-3));
  torch::optim::Adam fused(by_block, torch::optim::AdamOptions(1e-3));
  const auto step_plain = [&] { plain.step(); };
  const auto step_fused = [&] { troupe::detail::step_by_blocks(fused); };
  step_plain();  // makes the state
  step_fused();
  std::vector<double> plain_seconds;
  std::vector<double> fused_seconds;
  for (int i = 0; i < steps; ++i) {
    plain_seconds.push_back(time_of(step_plain));
    fused_seconds.push_back(time_of(step_fused));
  }
  bool same = true;
  for (std::size_t i = 0; i < by_block.size(); ++i) {
    same = same && by_block[i].equal(by_operation[i]);
  }
  using namespace troupe::bench;
  std::cout << "Adam, 25 million parameters, " << threads << " threads: LibTorch "
            << time_text(summarize(plain_seconds)) << ", fused "
            << time_text(summarize(fused_seconds)) << ", "
            << ratio_text(summarize(ratios(plain_seconds, fused_seconds))) << ", "
            << (same ? "same bits" : "DIFFERENT BITS") << "\n";
  measure_comparison(fused, by_block, steps);
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc == 3 ? std::atoi(argv[1]) : 0;
  const int steps = argc == 3 ? std::atoi(argv[2]) : 0;
  if (threads < 1 || steps < 1) {
    std::cerr << "usage: bench_optimizer THREADS STEPS, both at least 1\n";
    return 2;
  }
  return measure(threads, steps);
}
