// Programs that people write, each twice: as the plain LibTorch loop on all the data, and as hooks.
// On every strategy the second comes to what the first does, or is refused before it does harm.
// docs/programs.md is the table, which write_page.py makes from a run.
//
// All is in float64, where 1e-9 tells an equal program from another one; in float32 a convolution's
// bias before a norm layer differs by 3e-3 after twenty steps of Adam because a batch is shared.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/hooks.h"
#include "troupe/hooks/tensors/autocast.h"

namespace troupe::programs {

constexpr std::int64_t kExamples = 64;
constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kStepsOfEpoch = kExamples / kBatch;
constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kInputs = 6;

/// Some examples: x [B, 6] and y [B, 1] in float64, their classes [B] of 3, tokens [B, 4] of 10,
/// and whether they hold an object, [B] in float64: the last four of each batch do.
struct Rows {
  at::Tensor x, y, label, tokens, object;
  [[nodiscard]] std::int64_t size() const { return x.size(0); }
};
[[nodiscard]] Rows all_rows();

/// How a plain loop cuts its batches where the definition depends on it: into so many shares, each
/// in so many parts.
struct Shares {
  std::int64_t shares = 1;
  std::int64_t parts = 1;
  bool first_keeps = false;  // buffers are those of the first share, not the mean over all

  /// What a step of the loop computes apart, in order.
  [[nodiscard]] std::vector<Rows> of(std::int64_t step) const;
};

/// What a training leaves: the loss of each step, a metric over all examples, and every tensor.
struct Result {
  std::vector<double> losses;
  double metric = 0;
  std::vector<NamedTensor> tensors;
};

/// What programs compute in: float64. In the columns of bfloat16 float32, since autocast leaves
/// float64 alone.
[[nodiscard]] at::ScalarType real();
class InFloat32 {
 public:
  InFloat32();
  ~InFloat32();
  InFloat32(const InFloat32&) = delete;
  InFloat32& operator=(const InFloat32&) = delete;
};

/// Of a plain loop: a backward pass, which is outside of autocast; into `parameters` alone where
/// they are given.
using FullPrecision = troupe::detail::AutocastPause;
inline void backward(const at::Tensor& loss, const std::vector<at::Tensor>& parameters = {},
                     bool keeps_graph = false) {
  const FullPrecision pass(at::kCPU);
  torch::autograd::backward({loss}, {}, keeps_graph, false, parameters);
}

/// Values that depend on names and places alone, so that no generator has to be seeded: ranks of a
/// test are threads, which share LibTorch's.
template <class Net>
std::shared_ptr<Net> initialized(std::shared_ptr<Net> net) {
  const torch::NoGradGuard no_grad;
  double phase = 0;
  for (at::Tensor& parameter : net->parameters()) {
    net->to(real());
    parameter.copy_(torch::sin(torch::arange(parameter.numel(), torch::kFloat64) * 0.7 + ++phase)
                        .view(parameter.sizes()) *
                    0.4);
  }
  return net;
}

/// As zero_grad(/*set_to_none=*/true), which LibTorch before 2.0 lacks: its zeros let momentum move
/// weights that are frozen.
inline void clear_gradients(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) parameter.mutable_grad() = at::Tensor();
  }
}

/// Parameters and buffers.
[[nodiscard]] std::vector<NamedTensor> tensors_of(torch::nn::Module& net,
                                                  const std::string& prefix = "");

/// [B, 1] and [B, 1] to [B].
inline at::Tensor squares(const at::Tensor& y, const at::Tensor& target) {
  return (y - target).pow(2).squeeze(1);
}

/// The data of all programs in its own order, losses by hand, and the mean of the losses of
/// the test as metric.
class ProgramHooks : public Hooks {
 public:
  [[nodiscard]] LossSet create_losses() const override { return {}; }
  [[nodiscard]] MetricSet create_metrics() const override { return MetricSet().add<Mean>("error"); }
  [[nodiscard]] Splits create_datasets() const override;
  /// The mean of errors(); what a program does instead it overrides.
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor loss = replica.global_mean(errors(replica, rows_of(batch)));
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor each = errors(replica, rows_of(batch));
    replica.metric("error").update(each);
    return replica.global_mean(each);
  }

 protected:
  [[nodiscard]] static Rows rows_of(const Batch& batch) {
    return {batch.fields[0], batch.fields[1], batch.fields[2], batch.fields[3], batch.fields[4]};
  }
  /// [B], in the mode of the step.
  [[nodiscard]] virtual at::Tensor errors(Replica& replica, const Rows& rows) const = 0;
};

/// What a cell of the table comes to.
struct Expected {
  enum class Kind {
    equal,         // to the plain loop on whole batches
    shares,        // to the one that computes each replica's share by itself
    parts,         // to the one that computes each part by itself
    simultaneous,  // to the one whose gradients are all of the old weights
    own_draws,     // repeatable at one width; with a text, not: the log says so
    refused        // with this text in the message
  };
  Kind kind = Kind::equal;
  std::string text = {};
};
inline Expected refused(std::string text) { return {Expected::Kind::refused, std::move(text)}; }

/// Columns of the table.
enum class Column {
  alone,
  replicas,  // 2
  two_workers,
  three_workers,
  two_by_two,  // workers x replicas
  gloo,
  accumulate,     // 3 parts
  virtual_alone,  // 4 virtual replicas on one worker
  virtual_pair,   // on two
  elastic,        // so, of which the chief is killed in step 7, and another worker comes
  sharded,        // --shard-optimizer, two workers
  servers,        // two synchronous workers, two servers
  averages,       // --ema-decay
  bfloat16,       // --precision bfloat16, alone
  bfloat16_pair,  // and on two workers
  resumed         // two workers, stopped and resumed
};
[[nodiscard]] const std::vector<std::pair<Column, std::string>>& columns();

struct Program {
  std::string kind;
  std::function<Result(const Shares&)> plain;
  std::function<std::unique_ptr<Hooks>()> hooks;
  std::map<Column, Expected> exceptions = {};
  std::function<Result(const Shares&)> simultaneous = nullptr;
};
/// Of a static initialiser.
bool add(Program program);
[[nodiscard]] const std::vector<Program>& programs();

/// Every column of `list`, alike.
[[nodiscard]] std::map<Column, Expected> in(std::vector<Column> list, const Expected& expected);
/// Those where train_step is called several times for a step.
inline const std::vector<Column> kRepeated = {Column::accumulate, Column::virtual_alone,
                                              Column::virtual_pair, Column::elastic};

}  // namespace troupe::programs
