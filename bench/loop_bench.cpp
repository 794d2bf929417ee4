// The same training by hand, as short as LibTorch allows: forward, backward, one all-reduce over
// Gloo where there are several ranks, the optimiser's step. No data pipeline, metric or log.
//   bench_loop MODEL GLOBAL_BATCH LEARNING_RATE RANK RANKS STORE
// STORE: a file for Gloo's ranks; "-": this rank's gradients stay its own; "in-step:INDEX:FILE":
// they do, but each of the two loops waits in every step for the other one. bench/training.py
// starts it. Requests: "time STEPS UNTIMED", "losses STEPS", "end".
#include <chrono>
#include <nlohmann/json.hpp>

#include "bench/control.h"
#include "bench/gloo_group.h"
#include "bench/in_step.h"
#include "bench/step_clock.h"
#include "bench/training_models.h"
#include "troupe/core/text.h"

namespace troupe::bench {
namespace {

constexpr std::chrono::milliseconds kLimit{60'000};
constexpr std::size_t kBatches = 16;

struct Plan {
  std::string model;
  std::int64_t global_batch = 0;
  double learning_rate = 0;
  int rank = 0;
  int ranks = 1;
  std::string store;
};

Plan plan_of(int argc, const char* const* argv) {
  if (argc != 7) {
    throw ConfigError("this program is a part of a benchmark.", "run bench/training.py.");
  }
  return {argv[1], std::stoll(argv[2]), std::stod(argv[3]), std::stoi(argv[4]), std::stoi(argv[5]),
          argv[6]};
}

class Loop {
 public:
  explicit Loop(const Plan& plan)
      : plan_(plan),
        model_(plan.model),
        parameters_(model_.parameters()),
        sgd_(parameters_, torch::optim::SGDOptions(plan.learning_rate)) {
    begin_as_troupe();
    for (const auto& parameter : parameters_) count_ += parameter.numel();
    if (plan.store == "-") return;
    const std::string in_step = "in-step:";
    if (plan.store.rfind(in_step, 0) == 0) {
      const std::string where = plan.store.substr(in_step.size());
      in_step_ = std::make_unique<InStep>(where.substr(2), where.front() == '1' ? 1 : 0);
      return;
    }
    gloo_ = GlooGroup::make(plan.rank, plan.ranks, plan.store, kLimit);
    if (!gloo_)
      throw ConfigError("this build has no Gloo.", "install libgloo-dev and build again.");
    flat_ = torch::zeros({count_});
  }

  void serve() {
    Control control;
    control.answer({{"rank", plan_.rank}, {"parameters", count_}});
    for (auto words = control.next(); words.front() != "end"; words = control.next()) {
      const std::int64_t steps = std::stoll(words.at(1));
      if (words.front() == "losses") {
        control.answer({{"losses", losses(steps)}});
        continue;
      }
      run(std::stoll(words.at(2)));
      StepClock clock;
      clock.start();
      run(steps);
      control.answer(clock.stop(steps));
    }
    gloo_.reset();
    control.answer(farewell());
  }

 private:
  /// Troupe's first weights and its first batches, of which this rank takes its share.
  void begin_as_troupe();
  at::Tensor step();
  void sum_gradients();
  void run(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) step();
  }
  std::vector<double> losses(std::int64_t steps);

  Plan plan_;
  Model model_;
  std::vector<at::Tensor> parameters_;
  torch::optim::SGD sgd_;
  std::int64_t count_ = 0;
  std::unique_ptr<GlooGroup> gloo_;
  std::unique_ptr<InStep> in_step_;
  at::Tensor flat_;  // all gradients, end to end
  std::vector<std::vector<at::Tensor>> batches_;
  std::size_t next_ = 0;
};

void Loop::begin_as_troupe() {
  Options options;
  options.train.learning_rate = plan_.learning_rate;
  options.strategy.kind = StrategyKind::one_device;
  options.strategy.threads = 1;
  const ModelHooks hooks(plan_.model, options);
  const auto strategy = make_strategy(options.strategy);
  const TrainState state = strategy->create_state(hooks, options.train.seed);
  const torch::NoGradGuard no_grad;
  const auto theirs = state.replicas.front()->model<Model>().parameters();
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(theirs[i]);
  const auto data =
      strategy->distribute(hooks.create_datasets(), {plan_.global_batch, options.train.seed});
  const std::int64_t share = plan_.global_batch / plan_.ranks;
  for (const DistributedBatch& batch : data.train->epoch(0)) {
    std::vector<at::Tensor> mine;
    for (const auto& field : batch.replicas.front().fields) {
      mine.push_back(field.narrow(0, plan_.rank * share, share).clone());
    }
    batches_.push_back(std::move(mine));
    if (batches_.size() == kBatches) break;
  }
}

at::Tensor Loop::step() {
  const auto& batch = batches_[next_++ % batches_.size()];
  for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  const auto loss =
      losses_of(model_.forward(batch[0]), batch[1]).sum() / static_cast<double>(plan_.global_batch);
  loss.backward();
  if (gloo_) sum_gradients();
  if (in_step_) in_step_->meet();
  sgd_.step();
  return loss.detach();
}

void Loop::sum_gradients() {
  const torch::NoGradGuard no_grad;
  std::int64_t offset = 0;
  for (auto& parameter : parameters_) {
    auto slot = flat_.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    slot.copy_(parameter.grad());
    parameter.mutable_grad() = slot;
    offset += parameter.numel();
  }
  gloo_->all_reduce(Span<float>(flat_.data_ptr<float>(), static_cast<std::size_t>(count_)));
}

std::vector<double> Loop::losses(std::int64_t steps) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < steps; ++i) {
    auto loss = step().clone();
    if (gloo_) gloo_->all_reduce(Span<float>(loss.data_ptr<float>(), 1));
    result.push_back(loss.item<double>());
  }
  return result;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    torch::set_num_threads(1);
    troupe::configure_log(troupe::LogLevel::warning, "");
    troupe::bench::Loop(troupe::bench::plan_of(argc, argv)).serve();
  });
}
