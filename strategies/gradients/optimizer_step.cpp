#include "troupe/strategies/gradients/optimizer_step.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <typeinfo>

#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"

namespace troupe::detail {
namespace {

using torch::optim::Optimizer;

/// Values of a tensor up to which LibTorch does not share an operation among threads.
constexpr std::int64_t kUnshared = at::internal::GRAIN_SIZE;
/// Values that a thread takes at a time. Five tensors of that many float32 are 1.25 MiB. At least
/// kUnshared, or LibTorch would not give each thread a row of Blocks; a multiple of any vector.
constexpr std::int64_t kBlock = 2 * kUnshared;
static_assert(kBlock % 64 == 0 && kBlock >= kUnshared);

/// What an update reads and writes: of one parameter, all of it or a block.
struct Values {
  at::Tensor parameter, gradient, mean, mean_square;

  template <class F>
  [[nodiscard]] Values each(F&& view) const {
    return {view(parameter), view(gradient), view(mean), view(mean_square)};
  }
};

/// The step of one parameter, by LibTorch's operations in LibTorch's order.
class AdamUpdate {
 public:
  template <class Options>
  AdamUpdate(const Options& options, std::int64_t step, bool decouples_decay)
      : beta1_(std::get<0>(options.betas())),
        beta2_(std::get<1>(options.betas())),
        eps_(options.eps()),
        decay_(options.weight_decay()),
        shrink_(1 - options.lr() * options.weight_decay()),
        decouples_decay_(decouples_decay),
        step_size_(options.lr() / (1 - std::pow(beta1_, step))),
        correction_(std::sqrt(1 - std::pow(beta2_, step))) {}

  void operator()(const Values& values) const {
    auto [parameter, gradient, mean, mean_square] = values;
    if (decay_ != 0) {
      if (decouples_decay_) {
        parameter.mul_(shrink_);
      } else {
        gradient = gradient.add(parameter, decay_);
      }
    }
    mean.mul_(beta1_).add_(gradient, 1 - beta1_);
    mean_square.mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
    const at::Tensor denominator = mean_square.sqrt().div_(correction_).add_(eps_);
    parameter.addcdiv_(mean, denominator, -step_size_);
  }

 private:
  double beta1_, beta2_, eps_, decay_;
  double shrink_;  // by decoupled decay
  bool decouples_decay_;
  double step_size_, correction_;
};

/// A parameter cut as LibTorch's threads cut it.
///
/// LibTorch gives each thread one stretch of a tensor. It computes a stretch in vectors and its
/// last values one by one, which may round differently (a fused multiply-add here and not there).
/// For equal bits those last values must be the same ones: the stretches are LibTorch's, and the
/// blocks within them multiples of a vector.
class Blocks {
 public:
  Blocks(std::int64_t size, std::int64_t threads)
      : size_(size), threads_(threads), stretch_((size + threads - 1) / threads) {}

  /// Calls `use` with every block of `values`, which are contiguous.
  template <class F>
  void each(const Values& values, F&& use) const {
    // Row t of a view is of the t-th thread's stretch: LibTorch gives it to the t-th thread.
    const std::int64_t rows = (size_ - (threads_ - 1) * stretch_) / kBlock;
    for (std::int64_t row = 0; row < rows; ++row) {
      use(values.each([&](const at::Tensor& tensor) {
        return tensor.as_strided({threads_, kBlock}, {stretch_, 1},
                                 tensor.storage_offset() + row * kBlock);
      }));
    }
    for (std::int64_t begin = 0; begin < size_; begin += stretch_) {
      const std::int64_t end = std::min(size_, begin + stretch_);
      for (std::int64_t at = begin + rows * kBlock; at < end; at += kUnshared) {
        const std::int64_t count = std::min(kUnshared, end - at);
        use(values.each([&](const at::Tensor& tensor) {
          return tensor.as_strided({count}, {1}, tensor.storage_offset() + at);
        }));
      }
    }
  }

 private:
  std::int64_t size_, threads_, stretch_;
};

std::int64_t threads_of_an_operation() {
  return at::in_parallel_region() ? 1 : at::get_num_threads();
}

/// Whether blocks of it fit the caches where the whole does not.
bool is_large(const at::Tensor& parameter) {
  return parameter.numel() >= 2 * kBlock * threads_of_an_operation();
}

bool fits_blocks(const Values& values) {
  const at::Tensor& parameter = values.parameter;
  const auto dtype = parameter.scalar_type();
  if (!is_large(parameter) || (dtype != torch::kFloat32 && dtype != torch::kFloat64)) return false;
  for (const at::Tensor* tensor :
       {&parameter, &values.gradient, &values.mean, &values.mean_square}) {
    if (!tensor->defined() || !tensor->device().is_cpu() || tensor->scalar_type() != dtype ||
        tensor->sizes() != parameter.sizes() || !tensor->is_contiguous()) {
      return false;
    }
  }
  return true;
}

/// The state, made as LibTorch makes it where there is none yet.
template <class State>
State& adam_state(Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = parameter_state<State>(optimizer, parameter);
  if (state.exp_avg().defined()) return state;
  state.exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
  state.exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
  return state;
}

template <class Options, class State>
void step_adam(Optimizer& optimizer, bool decouples_decay) {
  const torch::NoGradGuard no_grad;
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      State& state = adam_state<State>(optimizer, parameter);
      state.step(state.step() + 1);
      const AdamUpdate update(options, state.step(), decouples_decay);
      const Values values{parameter, parameter.grad(), state.exp_avg(), state.exp_avg_sq()};
      if (fits_blocks(values)) {
        Blocks(parameter.numel(), threads_of_an_operation()).each(values, update);
      } else {
        update(values);
      }
    }
  }
}

/// Whether the step is one of those above, and something in it gains by blocks.
template <class Options>
bool is_plain_adam(Optimizer& optimizer) {
  bool pays = false;
  for (auto& group : optimizer.param_groups()) {
    if (static_cast<const Options&>(group.options()).amsgrad()) return false;
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      if (parameter.grad().is_sparse()) return false;  // LibTorch's to refuse
      pays = pays || (parameter.device().is_cpu() && is_large(parameter));
    }
  }
  return pays;
}

}  // namespace

void step_by_blocks(Optimizer& optimizer) {
  namespace o = torch::optim;
  // The very types: what is derived from them may step in another way.
  const auto is = [&](const std::type_info& type) { return typeid(optimizer) == type; };
  if (is(typeid(o::Adam)) && is_plain_adam<o::AdamOptions>(optimizer)) {
    step_adam<o::AdamOptions, o::AdamParamState>(optimizer, false);
  } else if (is(typeid(o::AdamW)) && is_plain_adam<o::AdamWOptions>(optimizer)) {
    step_adam<o::AdamWOptions, o::AdamWParamState>(optimizer, true);
  } else {
    optimizer.step();
  }
}

ConfigError no_gradient(const std::string& optimizer, const std::vector<NamedTensor>& parameters) {
  return ConfigError(
      text("the first update of optimizer \"", optimizer, "\" found no gradient for any of its ",
           parameters.size(), " parameters, from \"", parameters.front().first, "\" on."),
      "give apply_gradients a loss that was computed from these parameters, without detach() or "
      "item() on the way; if all are frozen, apply the optimiser when some no longer are.");
}

}  // namespace troupe::detail
