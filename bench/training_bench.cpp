// A training through the whole framework, as a user's program is: options, strategy, data pipeline,
// train() with its metrics and log. An action in that loop measures; bench/training.py says when.
// Requests: "time STEPS UNTIMED", "losses STEPS", "end".
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/control.h"
#include "bench/paced_engine.h"
#include "bench/step_clock.h"
#include "bench/training_models.h"
#include "troupe/core/heap.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/kinds/multi_worker.h"

namespace troupe::bench {
namespace {

/// Steps in turns: between two requests every worker stands still after the same step.
class Turns final : public PeriodicAction {
 public:
  Turns(Control& control, nlohmann::ordered_json greeting)
      : control_(control), greeting_(std::move(greeting)) {}

  bool wants_losses(std::int64_t /*step*/, bool /*first*/) const override { return with_losses_; }
  void ready(RunControl& run) override {
    control_.answer(greeting_);
    take_request(run);
  }
  void after_step(const StepReport& report, RunControl& run) override {
    --left_;
    if (with_losses_) losses_.push_back(report.losses.front().second);
    if (left_ == timed_) clock_.start();
    if (left_ > 0) return;
    if (with_losses_) {
      control_.answer({{"losses", losses_}});
    } else {
      control_.answer(clock_.stop(timed_));
    }
    take_request(run);
  }

 private:
  void take_request(RunControl& run) {
    const auto words = control_.next();
    if (words.front() == "end") return run.request_stop("the measurements are done");
    with_losses_ = words.front() == "losses";
    losses_.clear();
    timed_ = std::stoll(words.at(1));
    left_ = timed_ + (with_losses_ ? 0 : std::stoll(words.at(2)));
    clock_.start();
  }

  Control& control_;
  nlohmann::ordered_json greeting_;
  std::int64_t left_ = 0;
  std::int64_t timed_ = 0;
  bool with_losses_ = false;
  std::vector<double> losses_;
  StepClock clock_;
};

std::int64_t parameters_of(const TrainState& state) {
  std::int64_t count = 0;
  for (const auto& parameter : state.replicas.front()->model<Model>().parameters()) {
    count += parameter.numel();
  }
  return count;
}

/// What the fullest replica of this worker keeps.
std::uint64_t optimizer_bytes_of(const TrainState& state) {
  std::uint64_t most = 0;
  for (const auto& replica : state.replicas) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : replica->optimizer_names()) {
      (void)describe_optimizer(replica->optimizer(name), replica->parameters(), tensors);
    }
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
    most = std::max(most, bytes);
  }
  return most;
}

void run(int argc, const char* const* argv) {
  std::string model = "cnn";
  double pace = 0;
  bool adam = false;
  const Options options =
      parse_options(argc, argv,
                    {flag("learning-rate"), flag("momentum"),
                     flag("model", &model, "cnn, mlp, resnet or transformer"),
                     flag("adam", &adam, "train by Adam instead of SGD"),
                     flag("pace", &pace, "GB/s of the link between workers; 0: as it is")},
                    {"bench_training",
                     "One process of the training benchmark; bench/training.py starts it.",
                     {"--model cnn --batch-size 64"},
                     true});
  const ModelHooks hooks(model, options, adam);
  prepare_heap(1);  // as parse_options() does
  const auto strategy = pace > 0 ? make_multi_worker(options.strategy, paced(pace * 1e9))
                                 : make_strategy(options.strategy);
  TrainState state = strategy->create_state(hooks, options.train.seed);
  const DistributedSplits data =
      strategy->distribute(hooks.create_datasets(), {options.train.batch_size, options.train.seed});
  Control control;
  Callbacks callbacks;
  callbacks.actions.push_back(std::make_shared<Turns>(
      control,
      nlohmann::ordered_json{{"rank", strategy->rank()}, {"parameters", parameters_of(state)}}));
  train(*strategy, hooks, state, data, options.train, callbacks);
  strategy->close();
  nlohmann::ordered_json last = farewell();
  last["optimizer_bytes"] = optimizer_bytes_of(state);
  control.answer(last);
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] { troupe::bench::run(argc, argv); });
}
