// examples/gan/main.cpp -- template/main.cpp with two networks: digits are drawn from noise. What
// is added is the line that has samples written at every evaluation.
#include "examples/gan/gan_hooks.h"
#include "examples/gan/sample_grids.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    GanOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"gan",
         "Learns to draw handwritten digits from noise, with two networks and two optimisers.",
         {"--epochs 10 --model-dir run1", "--data-dir mnist --epochs 3 --samples-dir pictures",
          "--mode train_and_evaluate --model-dir run1 --max-steps 1500 --save-checkpoints-steps "
          "300",
          "--mode predict --model-dir run1 --predict-examples 1"}});
    const GanHooks hooks(options, mine);
    if (options.mode != troupe::Mode::train) {  // train_and_evaluate, evaluate, predict, export
      troupe::Estimator estimator(hooks, {options.train, options.strategy});
      troupe::TrainSpec train_spec = troupe::train_spec(options.train, options.eval);
      if (options.mode == troupe::Mode::train_and_evaluate) {
        add_sample_grids(train_spec.companions, mine, estimator.config().model_dir, options.mode);
      }
      troupe::run_mode(options.mode, estimator, train_spec, troupe::eval_spec(options.eval),
                       options.use);
      return 0;
    }
    if (troupe::serve_if_server(hooks, options.strategy)) return 0;
    const auto strategy = troupe::make_strategy(options.strategy);
    troupe::TrainState state = strategy->create_state(hooks, options.train.seed);
    const troupe::DistributedSplits data =
        strategy->distribute(hooks.create_datasets(), options.train.batches());
    troupe::Callbacks callbacks;
    add_sample_grids(callbacks, mine, options.train.model_dir, options.mode);
    const troupe::History history =
        troupe::train(*strategy, hooks, state, data, options.train, callbacks);
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
    return 0;
  });
}
