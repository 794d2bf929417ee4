// examples/custom_loop/main.cpp -- a training loop that troupe::train has no options for: two step
// functions in turn, a schedule of the loop's own, and weights that are clipped after every step.
// It is saved, resumed, limited, logged and stopped as any other, since a TrainingRun drives it.
#include <algorithm>
#include <limits>

#include "examples/mnist/mnist_hooks.h"
#include "troupe.h"

namespace {

/// The same on every replica of every worker, so they stay equal.
void clip_weights(const troupe::TrainState& state, double limit) {
  const torch::NoGradGuard no_grad;
  for (const auto& replica : state.replicas) {
    for (auto& [name, weight] : replica->parameters()) weight.clamp_(-limit, limit);
  }
}

/// Refused, not ignored.
void check(const troupe::Options& options, double clip) {
  if (!options.strategy.cluster.servers.empty()) {
    throw troupe::ConfigError(
        "custom_loop clips weights, and in this cluster parameter servers hold them.",
        "start it without parameter servers (--ps).");
  }
  if (!(clip > 0)) throw troupe::ConfigError("--clip is not above 0.", "give a positive number.");
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    double clip = 0.2;
    troupe::ProgramInfo program{"custom_loop",
                                "Trains on clean and noisy digits in turn, with clipped weights.",
                                {"--epochs 3", "--epochs 3 --clip 0.1 --model-dir run1",
                                 "--max-steps 300 --metrics-file steps.jsonl"}};
    program.train_only = true;  // this loop is all there is
    auto flags = MnistHooks::flags();
    flags.push_back(troupe::flag("clip", &clip, "weights stay within plus and minus this"));
    const auto options = troupe::parse_options(argc, argv, std::move(flags), program);
    check(options, clip);
    const MnistHooks hooks(options);
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, options.train.seed);
    const auto data = strategy->distribute(hooks, options.train.batches());

    troupe::TrainingRun run(*strategy, hooks, state, data, options.train);
    // Kept in the checkpoint, as the weights are: a resumed run has them where they were.
    double& noise = run.keep("noise", 0.1);
    double& best = run.keep("best_loss", std::numeric_limits<double>::infinity());
    const troupe::Step clean = [&](troupe::Replica& replica, const troupe::Batch& batch) {
      return hooks.train_step(replica, batch);
    };
    // On pictures with noise, whose loss has its own name.
    const troupe::Step noisy = [&](troupe::Replica& replica, const troupe::Batch& batch) {
      troupe::Batch harder = batch;
      harder.fields[0] = batch.fields[0] + noise * torch::randn_like(batch.fields[0]);
      const auto result = hooks.train_step(replica, harder);
      return troupe::StepResult{{"noisy_loss", result.losses.front().second}};
    };
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) {
        if (!run.step(batch, batch.step % 2 == 0 ? clean : noisy)) break;
        clip_weights(state, clip);
      }
      // Better on clean pictures: harder ones next. The report is the same on all workers.
      if (const auto report = run.validate()) {
        const double loss = report->losses.front().second;
        noise *= loss < best ? 1.5 : 0.5;
        best = std::min(best, loss);
        run.log("noise", noise);
        if (noise < 0.001) run.stop("the loss has not fallen for long: there is no noise left");
      }
    }
    const auto history = run.finish();

    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
  });
}
