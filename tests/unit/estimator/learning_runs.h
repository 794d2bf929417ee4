// Trainings with learning rate schedules and averaged weights: hooks whose every part has state,
// and what such a training ends with.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/stop_at.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/train/schedule/averaged_weights.h"

namespace troupe::testing {

/// Buffers, random numbers, a frozen parameter, momentum, two groups with rates of their own, and a
/// metric "flat" that never improves. 22 examples: with batches of 8 three steps an epoch.
class GroupHooks final : public TinyHooks {
 public:
  /// Ranks that are threads of one process share LibTorch's random stream: no dropout for them.
  enum class Dropout { on, off };
  explicit GroupHooks(double rate = 0.02, Dropout dropout = Dropout::on)
      : TinyHooks(22), rate_(rate), dropout_(dropout) {}

  struct Net final : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 8));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
    torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
    torch::Tensor scale = register_parameter("scale", torch::ones({1}), /*requires_grad=*/false);
    torch::Tensor forward(const torch::Tensor& x) {
      return scale * out(dropout(torch::relu(norm(in(x)))));
    }
  };

  /// A mean that never gets lower.
  class Flat final : public Ratio {
   public:
    Flat() : Ratio("total", "weight") {}
    [[nodiscard]] Better better() const override { return Better::lower; }
    [[nodiscard]] at::Tensor measure(const at::Tensor& values, const at::Tensor&) const override {
      return Mean().measure(values, {});
    }
  };
  [[nodiscard]] MetricSet create_metrics() const override {
    return MetricSet().add<Mean>("absolute_error").add<Flat>("flat");
  }
  [[nodiscard]] Trainable create_model() const override {
    namespace o = torch::optim;
    const auto net = std::make_shared<Net>();
    if (dropout_ == Dropout::off) net->dropout->options.p(0);
    fill(*net);
    std::vector<o::OptimizerParamGroup> groups;
    groups.emplace_back(net->in->parameters());
    groups.emplace_back(net->out->parameters(),
                        std::make_unique<o::SGDOptions>(o::SGDOptions(rate_ / 4).momentum(0.9)));
    const auto options = o::SGDOptions(rate_).momentum(0.9);
    return Trainable()
        .add_model("model", net)
        .add_optimizer("optimizer", std::make_shared<o::SGD>(groups, options))
        .add_optimizer(
            "norms", std::make_shared<o::Adam>(net->norm->parameters(), o::AdamOptions(rate_ / 2)));
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    replica.apply_gradients(validation_step(replica, batch).losses.front().second, "norms");
    const auto loss = validation_step(replica, batch);
    replica.apply_gradients(loss.losses.front().second);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<Net>().forward(x);
    replica.metric("absolute_error").update((y - target).abs());
    replica.metric("flat").update(torch::ones_like(y));
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }

 private:
  /// Random initial weights would be drawn from the stream that ranks share, too.
  static void fill(Net& net) {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net.parameters()) {
      if (!parameter.requires_grad()) continue;
      parameter.copy_(torch::linspace(-0.5, 0.7, parameter.numel()).view_as(parameter));
    }
  }

  double rate_;
  Dropout dropout_;
};

inline std::vector<double> rates_of(Replica& replica) {
  std::vector<double> rates;
  for (const auto& name : replica.optimizer_names()) {
    for (auto& group : replica.optimizer(name).param_groups()) {
      rates.push_back(group.options().get_lr());
    }
  }
  return rates;
}

/// What each step was taken with.
class Rates final : public PeriodicAction {
 public:
  void before_step(RunControl& run) override { set.push_back(rates_of(run.replica())); }
  void after_step(const StepReport& report, RunControl& run) override {
    reported.push_back(report.learning_rate);
    weights.push_back(run.replica().parameters().front().second.item<double>());
  }
  std::vector<std::vector<double>> set;
  std::vector<std::optional<double>> reported;
  std::vector<double> weights;
};

/// What a run ends with; compared bit for bit.
struct Ending {
  std::string hash;
  std::string averages;
  LossValues validation;
  std::int64_t drops = 0;
  std::vector<double> rates;
  bool operator==(const Ending& other) const {
    return hash == other.hash && averages == other.averages && validation == other.validation &&
           drops == other.drops && rates == other.rates;
  }
};

inline TrainOptions learning_options(const std::filesystem::path& dir,
                                     const ScheduleOptions& schedule) {
  TrainOptions options;
  options.model_dir = dir.string();
  options.max_steps = 10;
  options.save_checkpoints_steps = 100;
  options.batch_size = 8;
  options.progress = false;
  options.log_every = 0;
  options.save_summary_steps = 0;
  options.schedule = schedule;
  options.ema_decay = 0.9;
  return options;
}

/// A process's whole life, which an action ends at step `stop`; 0: nothing ends it early.
inline Ending train(Strategy& strategy, const Hooks& hooks, const TrainOptions& options,
                    std::int64_t stop = 0, const std::shared_ptr<Rates>& rates = nullptr) {
  auto state = strategy.create_state(hooks, options.seed);
  const auto data =
      strategy.distribute(hooks.create_datasets(), {options.batch_size, options.seed});
  Callbacks callbacks;
  if (stop > 0) {
    callbacks.actions.push_back(std::make_shared<StopAt>(stop));
  }
  if (rates) callbacks.actions.push_back(rates);
  const auto history = troupe::train(strategy, hooks, state, data, options, callbacks);
  Ending ending;
  ending.hash = common_parameter_hash(strategy, state);
  {
    const AveragesInUse averages(state);
    ending.averages = common_parameter_hash(strategy, state);
  }
  CHECK(common_parameter_hash(strategy, state) == ending.hash);
  if (history.validation) ending.validation = history.validation->losses;
  ending.drops = state.plateau.drops;
  ending.rates = rates_of(*state.replicas.front());
  strategy.close();
  return ending;
}

inline Ending train_alone(const Hooks& hooks, const TrainOptions& options, std::int64_t stop = 0,
                          const std::shared_ptr<Rates>& rates = nullptr) {
  return train(*make_one_device({}), hooks, options, stop, rates);
}

/// What two workers end with; equal to each other.
inline Ending train_two(const Hooks& hooks, const TrainOptions& options, std::int64_t stop = 0) {
  std::vector<Ending> endings(2);
  const auto port = free_port();
  run_ranks(2, [&](int rank) {
    const auto strategy = make_multi_worker(options_of(rank, 2, port));
    endings[static_cast<std::size_t>(rank)] = train(*strategy, hooks, options, stop);
  });
  CHECK(endings[0] == endings[1]);
  return endings[0];
}

inline ScheduleOptions schedule_of(Schedule kind, std::int64_t warmup_steps = 0) {
  ScheduleOptions schedule;
  schedule.kind = kind;
  schedule.warmup_steps = warmup_steps;
  schedule.decay_factor = 0.5;
  if (kind == Schedule::step) schedule.decay_steps = 2;
  schedule.patience = 1;
  schedule.metric = "flat";
  return schedule;
}

inline std::vector<ScheduleOptions> every_schedule() {
  return {schedule_of(Schedule::constant, 7), schedule_of(Schedule::step, 2),
          schedule_of(Schedule::cosine, 2), schedule_of(Schedule::plateau)};
}

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace troupe::testing
