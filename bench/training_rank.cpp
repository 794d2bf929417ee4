// Shapes: B examples of this rank in a step.
#include "bench/training_rank.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gloo_group.h"
#include "core/clock.h"
#include "data/digits.h"
#include "examples/mnist/mnist_hooks.h"

namespace troupe::bench {
namespace {

constexpr std::int64_t kExamples = 2048;
constexpr int kCompareSteps = 8;
constexpr int kUntimedSteps = 2;  // at the start of a block: what ran before left other caches
constexpr std::chrono::milliseconds kLimit{60'000};
constexpr double kLearningRate = 1e-3;  // small: the arithmetic stays the same from end to end
constexpr double kMomentum = 0.9;

/// The share of rank `rank` of every step of an epoch, when `ranks` divide the global batch.
std::vector<DistributedBatch> make_batches(int rank, int ranks) {
  const Digits digits = generate_digits(DigitsSplit::train, kExamples, kDefaultDigitsSeed);
  auto bytes = const_cast<std::uint8_t*>(digits.images.data());
  const auto images = (torch::from_blob(bytes, {kExamples, 1, kDigitSide, kDigitSide}, torch::kByte)
                               .to(torch::kFloat) /
                           255 -
                       0.1307) /
                      0.3081;
  const auto labels =
      torch::from_blob(const_cast<std::uint8_t*>(digits.labels.data()), {kExamples}, torch::kByte)
          .to(torch::kLong);
  const std::int64_t share = kGlobalBatch / ranks;
  std::vector<DistributedBatch> batches;
  for (std::int64_t step = 0; step < kExamples / kGlobalBatch; ++step) {
    const std::int64_t first = step * kGlobalBatch + rank * share;
    Batch batch{{images.narrow(0, first, share).clone(), labels.narrow(0, first, share).clone()},
                kGlobalBatch,
                false};
    batches.push_back({{batch}, kGlobalBatch, 0, step});
  }
  return batches;
}

Options options_of(const RankPlace& place, const std::string& strategy) {
  Options options;
  options.train.batch_size = kGlobalBatch;
  options.train.learning_rate = kLearningRate;
  options.train.momentum = kMomentum;
  options.strategy.name = strategy;
  options.strategy.threads = 1;
  if (strategy == "multi-worker") options.strategy.cluster = cluster_of(place);
  return options;
}

/// What a user gets from Troupe: a strategy, and a step of the example's hooks.
class TroupeTraining {
 public:
  TroupeTraining(const RankPlace& place, const std::string& strategy)
      : hooks_(options_of(place, strategy)),
        strategy_(make_strategy(options_of(place, strategy).strategy)),
        state_(strategy_->create_state(hooks_, /*seed=*/1)) {}

  StepResult step(const DistributedBatch& batch) {
    return strategy_->run(step_, state_, batch).front();
  }
  [[nodiscard]] Strategy& strategy() { return *strategy_; }
  [[nodiscard]] Replica& replica() { return *state_.replicas.front(); }

 private:
  MnistHooks hooks_;
  std::unique_ptr<Strategy> strategy_;
  TrainState state_;
  Step step_ = [this](Replica& replica, const Batch& batch) {
    return hooks_.train_step(replica, batch);
  };
};

/// The same by hand, as short as LibTorch allows.
class BareTraining {
 public:
  /// Without `gloo` the gradients are those of this rank.
  explicit BareTraining(GlooGroup* gloo)
      : parameters_(net_.parameters()),
        sgd_(parameters_, torch::optim::SGDOptions(kLearningRate).momentum(kMomentum)),
        gloo_(gloo) {
    std::int64_t count = 0;
    for (const auto& parameter : parameters_) count += parameter.numel();
    flat_ = torch::zeros({count});
  }

  at::Tensor step(const DistributedBatch& batch) {
    const auto& fields = batch.replicas.front().fields;
    for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
    const auto loss = torch::nn::functional::cross_entropy(
                          net_.forward(fields[0]), fields[1],
                          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)) /
                      static_cast<double>(batch.global_examples);
    loss.backward();
    if (gloo_ != nullptr) sum_gradients();
    sgd_.step();
    return loss.detach();
  }
  void copy_weights(const Net& from) {
    const torch::NoGradGuard no_grad;
    const auto theirs = from.parameters();
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(theirs[i]);
  }
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  void sum_gradients() {
    const torch::NoGradGuard no_grad;
    std::int64_t offset = 0;
    for (auto& parameter : parameters_) {
      auto slot = flat_.narrow(0, offset, parameter.numel()).view(parameter.sizes());
      slot.copy_(parameter.grad());
      parameter.mutable_grad() = slot;
      offset += parameter.numel();
    }
    gloo_->all_reduce(
        Span<float>(flat_.data_ptr<float>(), static_cast<std::size_t>(flat_.numel())));
  }

  Net net_;
  std::vector<at::Tensor> parameters_;
  torch::optim::SGD sgd_;
  GlooGroup* gloo_;
  at::Tensor flat_;  // all gradients, end to end
};

/// Every rank's time, and a barrier: the strategy's own collectives, outside what is timed.
double slowest(Strategy& strategy, double seconds) {
  std::vector<double> of_all(static_cast<std::size_t>(strategy.world_size()), 0.0);
  of_all[static_cast<std::size_t>(strategy.rank())] = seconds;
  strategy.sum(of_all);
  return *std::max_element(of_all.begin(), of_all.end());
}

class Measurement {
 public:
  explicit Measurement(const RankPlace& place)
      : place_(place),
        shared_(make_batches(place.rank, place.count)),
        whole_(make_batches(0, 1)),
        troupe_(place, "multi-worker"),
        one_device_(place, "one-device"),
        gloo_(GlooGroup::make(place.rank, place.count, place.store_file, kLimit)),
        by_gloo_(gloo_.get()),
        alone_(nullptr),
        bare_(nullptr) {}

  nlohmann::ordered_json measure(const TrainingPlan& plan);
  /// Throws: InternalError when Troupe and the loop by hand train differently.
  void compare();
  void close() {
    gloo_.reset();
    troupe_.strategy().close();
  }

 private:
  using Batches = std::vector<DistributedBatch>;
  enum class Who { all, rank0 };
  struct Way {
    std::string name;
    Who who;
    const Batches* batches;
    std::function<void(const DistributedBatch&)> step;
  };

  [[nodiscard]] std::vector<Way> ways();
  double time(const Way& way, int steps);

  RankPlace place_;
  Batches shared_;  // [B = kGlobalBatch / ranks] of this rank
  Batches whole_;   // [B = kGlobalBatch]
  TroupeTraining troupe_;
  TroupeTraining one_device_;
  std::unique_ptr<GlooGroup> gloo_;
  BareTraining by_gloo_;
  BareTraining alone_;
  BareTraining bare_;
};

void Measurement::compare() {
  by_gloo_.copy_weights(troupe_.replica().model<Net>());
  if (gloo_ == nullptr) return;
  for (int i = 0; i < kCompareSteps; ++i) {
    const DistributedBatch& batch = shared_[static_cast<std::size_t>(i)];
    const double ours = troupe_.step(batch).losses.front().second.item<double>();
    const double theirs = by_gloo_.step(batch).item<double>();
    if (std::fabs(ours - theirs) <= 1e-4 * (1 + std::fabs(theirs))) continue;
    throw InternalError(text("step ", i, ": Troupe's loss is ", ours, ", by hand it is ", theirs,
                             " from the same weights."),
                        "measure nothing before they agree.");
  }
  const auto ours = troupe_.replica().model<Net>().parameters();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (torch::allclose(ours[i], by_gloo_.parameters()[i], /*rtol=*/1e-4, /*atol=*/1e-6)) continue;
    throw InternalError(text("after ", kCompareSteps, " steps parameter ", i,
                             " differs between Troupe and the loop by hand."),
                        "measure nothing before they agree.");
  }
}

std::vector<Measurement::Way> Measurement::ways() {
  using Batch = DistributedBatch;
  std::vector<Way> all;
  all.push_back({"troupe", Who::all, &shared_, [this](const Batch& b) { troupe_.step(b); }});
  if (gloo_) {
    all.push_back({"gloo", Who::all, &shared_, [this](const Batch& b) { by_gloo_.step(b); }});
  }
  all.push_back({"alone", Who::rank0, &shared_, [this](const Batch& b) { alone_.step(b); }});
  all.push_back(
      {"one_device", Who::rank0, &whole_, [this](const Batch& b) { one_device_.step(b); }});
  all.push_back(
      {"one_device_bare", Who::rank0, &whole_, [this](const Batch& b) { bare_.step(b); }});
  return all;
}

double Measurement::time(const Way& way, int steps) {
  const SteadyClock clock;
  double seconds = 0;
  slowest(troupe_.strategy(), 0);  // all ranks begin together
  if (way.who == Who::all || place_.rank == 0) {
    for (int i = 0; i < kUntimedSteps; ++i) way.step(way.batches->front());
    const auto start = clock.now();
    for (int i = 0; i < steps; ++i) {
      way.step((*way.batches)[static_cast<std::size_t>(i) % way.batches->size()]);
    }
    seconds = Seconds(clock.now() - start).count() / steps;
  }
  return slowest(troupe_.strategy(), seconds);
}

nlohmann::ordered_json Measurement::measure(const TrainingPlan& plan) {
  const std::vector<Way> all = ways();
  std::map<std::string, std::vector<double>> seconds;
  for (int round = -1; round < plan.rounds; ++round) {  // the first one warms up
    for (const Way& way : all) {
      const double value = time(way, plan.steps);
      if (round >= 0) seconds[way.name].push_back(value);
    }
  }
  nlohmann::ordered_json result;
  for (const Way& way : all) result[way.name] = seconds[way.name];
  return result;
}

}  // namespace

nlohmann::ordered_json measure_training(const RankPlace& place, const TrainingPlan& plan) {
  Measurement measurement(place);
  measurement.compare();
  nlohmann::ordered_json seconds = measurement.measure(plan);
  measurement.close();
  return seconds;
}

}  // namespace troupe::bench
