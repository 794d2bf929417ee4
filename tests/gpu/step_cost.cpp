// What Troupe adds to a step: the same training by Troupe and by hand, in turns inside one process,
// so that both have the same clocks, allocator and neighbours. Prints one line of JSON.
//
// By hand: batches lie on the device, the gradients go straight to the optimiser, and the host
// reads the loss every 50 steps. Troupe reads its batches from the host's memory, and keeps the
// example's metric and its log. A turn begins with a few untimed steps, since Troupe's loader reads
// ahead while the other side has its turn; it ends when the device has done all of its work. With
// libtroupe_wait_counter.so preloaded, waits are counted, without those at a turn's ends.
#include <ATen/record_function.h>
#include <dlfcn.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "bench/summary.h"
#include "tests/gpu/step_tasks.h"
#include "tests/gpu/wait_counter.h"

namespace troupe::gpu {
namespace {

constexpr std::int64_t kUntimed = 5;   // more than the loader reads ahead
constexpr std::int64_t kCounted = 50;  // whose operators are looked at
constexpr std::int64_t kLossEvery = 50;
constexpr std::size_t kBatches = 16;  // that lie on the device

struct Plan {
  std::string model = "cnn";
  std::int64_t pairs = 5;    // of turns: Troupe, by hand, by hand, Troupe
  std::int64_t steps = 100;  // of a turn
  std::int64_t warm_up = 20;
  bool operators = false;

  [[nodiscard]] std::int64_t troupe_steps() const {
    return 1 + warm_up + 2 * pairs * (steps + kUntimed) + kCounted;
  }
};

/// Null without the counter.
TakeWaitCounts* counter(const char* name) {
  return reinterpret_cast<TakeWaitCounts*>(dlsym(RTLD_DEFAULT, name));
}

/// What a function of the counter gave in turns, added up.
class Waits {
 public:
  explicit Waits(const char* function) : take_(counter(function)) {}

  [[nodiscard]] WaitCounts now() const {
    WaitCounts counts;
    if (take_ != nullptr) take_(&counts);
    return counts;
  }
  void add_since(const WaitCounts& before) {
    const WaitCounts after = now();
    for (std::size_t i = 0; i < kWaits; ++i) {
      sum_.calls[i] += after.calls[i] - before.calls[i];
      sum_.nanoseconds[i] += after.nanoseconds[i] - before.nanoseconds[i];
    }
  }
  /// Calls by function, and the microseconds in them.
  [[nodiscard]] nlohmann::ordered_json per_step(std::int64_t steps) const {
    nlohmann::ordered_json json;
    double blocked = 0;
    for (std::size_t i = 0; i < kWaits; ++i) {
      json[kWaitNames[i]] = static_cast<double>(sum_.calls[i]) / static_cast<double>(steps);
      blocked += 1e-3 * static_cast<double>(sum_.nanoseconds[i]);
    }
    json["blocked_us"] = blocked / static_cast<double>(steps);
    return json;
  }

 private:
  TakeWaitCounts* take_;
  WaitCounts sum_;
};

/// LibTorch's operators by name: how often a thread calls them, and the host's time in them without
/// that in others that they call.
class Operators {
 public:
  struct Cost {
    std::int64_t calls = 0;
    double microseconds = 0;
  };

  /// What `work` calls, in any thread.
  static std::map<std::string, Cost> of(const std::function<void()>& work) {
    costs().clear();
    const auto handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&enter, &leave).scopes({at::RecordScope::FUNCTION}));
    work();
    at::removeCallback(handle);
    return costs();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Call final : at::ObserverContext {
    Clock::time_point begin = Clock::now();
    Clock::duration in_others{};
    Call* caller = nullptr;
  };

  static std::map<std::string, Cost>& costs() {
    static std::map<std::string, Cost> costs;
    return costs;
  }
  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& /*function*/) {
    auto call = std::make_unique<Call>();
    call->caller = std::exchange(innermost_, call.get());
    return call;
  }
  static void leave(const at::RecordFunction& function, at::ObserverContext* context) {
    static std::mutex mutex;
    auto* const call = static_cast<Call*>(context);
    const auto taken = Clock::now() - call->begin;
    innermost_ = call->caller;
    if (innermost_ != nullptr) innermost_->in_others += taken;
    const std::lock_guard<std::mutex> lock(mutex);
    Cost& cost = costs()[function.name()];
    ++cost.calls;
    cost.microseconds += std::chrono::duration<double, std::micro>(taken - call->in_others).count();
  }

  static inline thread_local Call* innermost_ = nullptr;
};

class Side {
 public:
  virtual ~Side() = default;
  virtual void take(std::int64_t steps) = 0;
};

class ByTroupe final : public Side {
 public:
  explicit ByTroupe(TrainingRun& run) : run_(run), epoch_(run.epochs().next()) {}

  void take(std::int64_t steps) override {
    for (std::int64_t i = 0; i < steps; ++i) run_.train_step(*epoch_->next());
  }

 private:
  TrainingRun& run_;
  detail::TrainingEpoch* epoch_;  // the only one
};

class ByHand final : public Side {
 public:
  /// Begins with the weights of `state`, and with the first batches of `data`.
  ByHand(const Task& task, const TrainState& state, const DistributedDataset& data,
         std::int64_t batch_size)
      : task_(task), batch_size_(batch_size) {
    const Replica& theirs = *state.replicas.front();
    const c10::Device device = theirs.place().device;
    const Trainable trainable = task.hooks->create_model();
    net_ = trainable.models.front().second;
    net_->to(device);
    optimizer_ = trainable.optimizers.front().second;
    const torch::NoGradGuard no_grad;
    const auto weights = theirs.parameters();
    const auto mine = net_->parameters();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i].copy_(weights[i].second);
    for (const DistributedBatch& batch : data.epoch(0)) {
      batches_.emplace_back();
      for (const auto& field : batch.replicas.front().fields) {
        batches_.back().push_back(field.to(device, field.scalar_type(), false, /*copy=*/true));
      }
      if (batches_.size() == kBatches) break;
    }
  }

  void take(std::int64_t steps) override {
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto loss = step();
      if (taken_ % kLossEvery == 0) (void)loss.item<float>();  // the host waits here
    }
  }

  torch::Tensor step() {
    const auto& batch = batches_[static_cast<std::size_t>(taken_++) % batches_.size()];
    optimizer_->zero_grad();
    const auto loss = task_.losses(*net_, batch).sum() / static_cast<double>(batch_size_);
    loss.backward();
    optimizer_->step();
    return loss.detach();
  }

 private:
  const Task& task_;
  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<std::vector<torch::Tensor>> batches_;
  std::int64_t batch_size_;
  std::int64_t taken_ = 0;
};

/// The turns of one side.
class Turns {
 public:
  Turns(Side& side, c10::Device device) : side_(side), device_(device) {}

  void warm_up(std::int64_t steps) { side_.take(steps); }
  /// Seconds per step.
  double take(std::int64_t steps) {
    using Clock = std::chrono::steady_clock;
    side_.take(kUntimed);
    finish_device();
    const WaitCounts of_thread = of_thread_.now();
    const WaitCounts of_process = of_process_.now();
    const auto begin = Clock::now();
    side_.take(steps);
    of_thread_.add_since(of_thread);
    of_process_.add_since(of_process);
    finish_device();
    const std::chrono::duration<double> taken = Clock::now() - begin;
    steps_ += steps;
    seconds_.push_back(taken.count() / static_cast<double>(steps));
    return seconds_.back();
  }
  [[nodiscard]] nlohmann::ordered_json facts() const {
    const bench::Summary summary = bench::summarize(seconds_);
    nlohmann::ordered_json json = {{"us_per_step", 1e6 * summary.median},
                                   {"us_least", 1e6 * summary.min},
                                   {"us_most", 1e6 * summary.max}};
    if (counter(kOfProcess) == nullptr) return json;
    json["waits_per_step"] = {{"training_thread", of_thread_.per_step(steps_)},
                              {"all_threads", of_process_.per_step(steps_)}};
    return json;
  }

 private:
  void finish_device() const {
    if (device_.is_cuda()) torch::cuda::synchronize();
  }

  Side& side_;
  c10::Device device_;
  Waits of_thread_{kOfThread};
  Waits of_process_{kOfProcess};
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;
};

/// By operator: calls and microseconds of a step, by Troupe and by hand.
nlohmann::ordered_json operators_of(ByTroupe& by_troupe, ByHand& by_hand, std::int64_t steps) {
  nlohmann::ordered_json json;
  for (Side* side : std::initializer_list<Side*>{&by_troupe, &by_hand}) {
    const auto costs = Operators::of([&] { side->take(steps); });
    auto& own = json[side == &by_troupe ? "troupe" : "by_hand"];
    const auto count = static_cast<double>(steps);
    for (const auto& [name, cost] : costs)
      own[name] = {static_cast<double>(cost.calls) / count, cost.microseconds / count};
  }
  return json;
}

nlohmann::ordered_json measure(const Plan& plan, TrainingRun& run, ByHand& by_hand,
                               c10::Device device) {
  ByTroupe by_troupe(run);
  by_troupe.take(1);
  const double first = run.losses().front().second;
  const double first_by_hand = by_hand.step().item<double>();
  Turns troupe(by_troupe, device);
  Turns hand(by_hand, device);
  troupe.warm_up(plan.warm_up);
  hand.warm_up(plan.warm_up);
  nlohmann::ordered_json operators;
  if (plan.operators) operators = operators_of(by_troupe, by_hand, kCounted);
  std::vector<double> ratios;
  std::vector<double> differences;
  for (std::int64_t i = 0; i < plan.pairs; ++i) {
    const double t1 = troupe.take(plan.steps);
    const double h1 = hand.take(plan.steps);
    const double h2 = hand.take(plan.steps);
    const double t2 = troupe.take(plan.steps);
    ratios.push_back((t1 + t2) / (h1 + h2));
    differences.push_back(0.5e6 * (t1 + t2 - h1 - h2));
  }
  const bench::Summary ratio = bench::summarize(ratios);
  const bench::Summary difference = bench::summarize(differences);
  return {{"operators", operators},
          {"troupe", troupe.facts()},
          {"by_hand", hand.facts()},
          {"added_us", difference.median},
          {"added_us_least", difference.min},
          {"added_us_most", difference.max},
          {"ratio", ratio.median},
          {"spread_percent", 100 * (ratio.max - ratio.min) / ratio.median},
          {"first_loss", {{"troupe", first}, {"by_hand", first_by_hand}}}};
}

void run(int argc, const char* const* argv) {
  Plan plan;
  Options options = parse_options(
      argc, argv,
      {flag("model", &plan.model, "linear, cnn, mlp, resnet or transformer"),
       flag("pairs", &plan.pairs, "how often both sides have two turns each", {1, 1000}),
       flag("turn-steps", &plan.steps, "steps of a turn", {1, 100'000}),
       flag("operators", &plan.operators, "what LibTorch's operators take of the host"),
       flag("warm-up", &plan.warm_up, "steps of each side before the first turn", {0, 100'000})},
      {"step_cost",
       "What Troupe adds to a step of a loop by hand.",
       {"--model cnn --devices cuda"},
       true});
  options.train.max_steps = plan.troupe_steps();
  const Task task = make_task(plan.model, options);
  const auto strategy = make_strategy(options.strategy);
  TrainState state = strategy->create_state(*task.hooks, options.train.seed);
  const std::int64_t batch_size = options.train.batch_size;
  Splits splits = task.hooks->create_datasets();
  splits.train = std::make_shared<Repeated>(splits.train, plan.troupe_steps() * batch_size);
  const DistributedSplits data = strategy->distribute(splits, options.train.batches());
  ByHand by_hand(task, state, *data.train, batch_size);
  TrainingRun run(*strategy, *task.hooks, state, data, options.train);
  const c10::Device device = state.replicas.front()->place().device;
  nlohmann::ordered_json json = {
      {"model", plan.model},      {"device", device.str()},
      {"batch_size", batch_size}, {"turn_steps", plan.steps},
      {"pairs", plan.pairs},      {"waits_counted", counter(kOfProcess) != nullptr}};
  json.update(measure(plan, run, by_hand, device));
  (void)run.finish();
  strategy->close();
  std::cout << json.dump() << std::endl;
}

}  // namespace
}  // namespace troupe::gpu

int main(int argc, char** argv) {
  return troupe::run_main([&] { troupe::gpu::run(argc, argv); });
}
