// examples/mnist/main.cpp -- template/main.cpp with MNIST's hooks: the article's convolutional
// network on the real files (--data-dir) or on generated digits.
#include "examples/mnist/mnist_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(
        argc, argv, {},
        {"mnist",
         "Trains a convolutional network to read handwritten digits.",
         {"--epochs 3", "--data-dir mnist --epochs 2 --json-summary",
          "--mode train_and_evaluate --model-dir run1 --max-steps 600 --save-checkpoints-steps 100",
          "--config run.json --print-config"}});
    const MnistHooks hooks(options);
    if (options.mode != troupe::Mode::train) {  // train_and_evaluate, evaluate, predict, export
      troupe::Estimator estimator(hooks, {options.train, options.strategy});
      troupe::run_mode(options.mode, estimator, troupe::train_spec(options.train, options.eval),
                       troupe::eval_spec(options.eval), options.use);
      return;
    }
    if (troupe::serve_if_server(hooks, options.strategy)) return;
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, options.train.seed);
    const auto data = strategy->distribute(hooks.create_datasets(), options.train.batches());
    troupe::TrainingRun run(*strategy, hooks, state, data, options.train);
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) run.train_step(batch);
      run.validate();
    }
    const auto history = run.finish();
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
  });
}
