// examples/muon/muon.h -- an optimiser of one's own: a class derived from torch::optim::Optimizer,
// as LibTorch's are, and one registration, by which Troupe saves, resumes and serves it.
//
// Muon moves a matrix by its momentum made orthogonal, so that all directions are learnt alike;
// what is no matrix of a hidden layer (biases, the last layer) is stepped by Adam, in a parameter
// group of its own. Computes in the parameters' type. Source: Jordan et al. 2024, "Muon: An
// optimizer for hidden layers in neural networks", https://kellerjordan.github.io/posts/muon/; Adam
// with decoupled decay: Loshchilov and Hutter 2019.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "troupe.h"

/// Of a parameter group.
struct MuonOptions : torch::optim::OptimizerCloneableOptions<MuonOptions> {
  explicit MuonOptions(double learning_rate = 0.02) : lr_(learning_rate) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, orthogonal) = true;  // false: the group is stepped by Adam
  TORCH_ARG(double, momentum) = 0.95;  // of orthogonal groups, Nesterov's
  TORCH_ARG(double, beta1) = 0.9;      // of the others
  TORCH_ARG(double, beta2) = 0.95;
  TORCH_ARG(double, eps) = 1e-10;

 public:
  // Schedules and parameter servers set the rate through these.
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

/// Of a parameter.
struct MuonState : torch::optim::OptimizerCloneableParamState<MuonState> {
  TORCH_ARG(std::int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, average);         // of gradients
  TORCH_ARG(torch::Tensor, average_square);  // of their squares; undefined in orthogonal groups
};

class Muon final : public torch::optim::Optimizer {
 public:
  /// Throws: troupe::ConfigError for an orthogonal group with a parameter of fewer than two
  /// dimensions.
  explicit Muon(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const MuonOptions& defaults = MuonOptions())
      : Optimizer(groups, std::make_unique<MuonOptions>(defaults)) {
    troupe::keep_group_options(*this, groups);
    for (auto& group : param_groups()) {
      if (!options_of(group).orthogonal()) continue;
      for (const torch::Tensor& parameter : group.params()) check(parameter);
    }
  }

  torch::Tensor step(LossClosure closure = nullptr) override {
    torch::Tensor loss;
    if (closure != nullptr) {
      const at::AutoGradMode with_gradients(true);
      loss = closure();
    }
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      const MuonOptions& options = options_of(group);
      for (torch::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        parameter.mul_(1 - options.lr() * options.weight_decay());
        parameter.add_(direction(parameter, options), -options.lr());
      }
    }
    return loss;
  }

 private:
  static const MuonOptions& options_of(const torch::optim::OptimizerParamGroup& group) {
    return static_cast<const MuonOptions&>(group.options());
  }
  static void check(const torch::Tensor& parameter) {
    if (parameter.dim() >= 2) return;
    throw troupe::ConfigError(troupe::text("Muon was given a parameter of shape ",
                                           parameter.sizes(), ", which is no matrix."),
                              "put it into a group with orthogonal(false).");
  }

  torch::Tensor direction(const torch::Tensor& parameter, const MuonOptions& options) {
    const torch::Tensor& gradient = parameter.grad();
    auto& state = troupe::parameter_state<MuonState>(*this, parameter);
    state.step(state.step() + 1);
    if (!state.average().defined()) state.average(torch::zeros_like(parameter));
    if (!options.orthogonal()) return adams_direction(state, gradient, options);
    state.average().lerp_(gradient, 1 - options.momentum());
    // Rows are outputs, columns all else: a convolution's kernel is a matrix, too.
    const auto matrix = gradient.lerp(state.average(), options.momentum()).flatten(1);
    const double shape = static_cast<double>(matrix.size(0)) / static_cast<double>(matrix.size(1));
    return (orthogonalised(matrix) * std::sqrt(std::max(1.0, shape))).view_as(parameter);
  }

  static torch::Tensor adams_direction(MuonState& state, const torch::Tensor& gradient,
                                       const MuonOptions& options) {
    if (!state.average_square().defined()) state.average_square(torch::zeros_like(gradient));
    state.average().lerp_(gradient, 1 - options.beta1());
    state.average_square().lerp_(gradient.square(), 1 - options.beta2());
    const auto step = static_cast<double>(state.step());
    const auto mean = state.average() / (1 - std::pow(options.beta1(), step));
    const auto square = state.average_square() / (1 - std::pow(options.beta2(), step));
    return mean / (square.sqrt() + options.eps());
  }

  /// U V^T of the singular value decomposition U S V^T, nearly: five Newton-Schulz iterations bring
  /// the singular values near 1.
  static torch::Tensor orthogonalised(const torch::Tensor& matrix) {
    const bool is_tall = matrix.size(0) > matrix.size(1);
    auto x = is_tall ? matrix.t() : matrix;
    x = x / (x.norm() + 1e-7);
    for (int i = 0; i < 5; ++i) {
      const auto product = x.mm(x.t());
      x = 3.4445 * x + (-4.7750 * product + 2.0315 * product.mm(product)).mm(x);
    }
    return is_tall ? x.t() : x;
  }
};

/// Names of checkpoints' fields, and what they are. Muon does not go element by element, so that a
/// parameter server holds each of its parameters whole, which is what Stepping::whole says.
inline const bool muon_is_known = troupe::register_optimizer<Muon, MuonOptions, MuonState>(
    {"Muon",
     [](MuonOptions& options, troupe::FieldVisitor& visit) {
       visit("lr", options.lr());
       visit("weight_decay", options.weight_decay());
       visit("orthogonal", options.orthogonal());
       visit("momentum", options.momentum());
       visit("beta1", options.beta1());
       visit("beta2", options.beta2());
       visit("eps", options.eps());
     },
     [](MuonState& state, troupe::FieldVisitor& visit) {
       visit("step", state.step());
       visit("average", state.average());
       visit("average_square", state.average_square());
     },
     troupe::Stepping::whole});
