// examples/mnist/main.cpp -- template/main.cpp with MNIST's hooks: the article's convolutional
// network on the real files (--data-dir) or on generated digits.
#include "examples/mnist/mnist_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(
        argc, argv, MnistHooks::flags(),
        {"mnist",
         "Trains a convolutional network to read handwritten digits.",
         {"--epochs 3", "--data-dir mnist --epochs 2 --json-summary",
          "--mode train_and_evaluate --model-dir run1 --max-steps 600 --save-every 100",
          "--config run.json --print-config"}});
    const MnistHooks hooks(options);
    troupe::Job job(hooks, options);
    if (job.done_without_training()) return;
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, options.train.seed);
    const auto data = strategy->distribute(hooks, options.train.batches());
    troupe::TrainingRun run(*strategy, hooks, state, data, options.train, job.callbacks());
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) run.train_step(batch);
      run.validate();
    }
    const auto history = run.finish();
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
    job.after_training(history);
  });
}
