// examples/embedding/main.cpp -- template/main.cpp with a recommender: tables of many rows, of
// which a step touches a few, so that parameter servers have only those travel.
#include "examples/embedding/embedding_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    EmbeddingOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"embedding",
         "Learns what users like from ratings, with embedding tables and sparse gradients.",
         {"--batch-size 1024 --learning-rate 0.2",
          "--batch-size 1024 --learning-rate 0.2 --dimension 0",
          "--users 2000 --items 500 --ratings 60000 --epochs 5 --learning-rate 0.2"}});
    const EmbeddingHooks hooks(options, mine);
    if (options.mode != troupe::Mode::train) {  // train_and_evaluate, evaluate, predict, export
      troupe::Estimator estimator(hooks, {options.train, options.strategy, kFeatures, {}});
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
