// examples/resnet/main.cpp -- template/main.cpp with a residual network: CIFAR-10's files
// (--data-dir) or generated shapes, moved and mirrored at random.
#include "examples/resnet/resnet_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    ResNetOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"resnet",
         "Trains a residual network to name what is in small coloured pictures.",
         {"--epochs 3", "--width 4 --train-examples 2000 --epochs 3",
          "--data-dir cifar-10-batches-bin --width 64 --epochs 20 --weight-decay 0.0005",
          "--mode train_and_evaluate --model-dir run1 --max-steps 600 --save-checkpoints-steps "
          "100"}});
    const ResNetHooks hooks(options, mine);
    if (options.mode != troupe::Mode::train) {  // train_and_evaluate, evaluate, predict, export
      troupe::Estimator estimator(hooks, {options.train, options.strategy});
      troupe::run_mode(options.mode, estimator, troupe::train_spec(options.train, options.eval),
                       troupe::eval_spec(options.eval), options.use);
      return 0;
    }
    if (troupe::serve_if_server(hooks, options.strategy)) return 0;
    const auto strategy = troupe::make_strategy(options.strategy);
    troupe::TrainState state = strategy->create_state(hooks, options.train.seed);
    const troupe::DistributedSplits data =
        strategy->distribute(hooks.create_datasets(), options.train.batches());
    const troupe::History history = troupe::train(*strategy, hooks, state, data, options.train);
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
    return 0;
  });
}
