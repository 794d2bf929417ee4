// template/main.cpp -- the whole program, in reading order. Numbers match the TODOs in my_hooks.h.
//
//   one process    ./my_training --epochs 5
//   three workers  troupe run --workers 3 -- ./my_training --epochs 5
//   with servers   troupe run --workers 3 --ps 1 -- ./my_training --epochs 5
//   by hand        ./my_training --cluster cluster.json --task worker:1     (one per machine)
//   evaluated      ./my_training --mode train_and_evaluate --model-dir run1 --max-steps 2000
#include "my_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {  // maps troupe::Error to a message and an exit code; docs/errors.md
    // 1. Options: defaults < cluster environment < --config file < TROUPE_* < command line.
    MyOptions mine;
    const troupe::Options options = troupe::parse_options(argc, argv, mine.flags());
    const MyHooks hooks(options, mine);

    // --mode train_and_evaluate, evaluate, predict or export: the same hooks, under an estimator.
    if (options.mode != troupe::Mode::train) {
      troupe::Estimator estimator(hooks, {options.train, options.strategy});
      troupe::run_mode(options.mode, estimator, troupe::train_spec(options.train, options.eval),
                       troupe::eval_spec(options.eval), options.use);
      return 0;
    }

    // A parameter server (troupe run --ps N) has its whole part here, and is done.
    if (troupe::serve_if_server(hooks, options.strategy)) return 0;

    // Strategy: this process's place among the workers. Listens; does not wait for anybody yet.
    const auto strategy = troupe::make_strategy(options.strategy);

    // 2.-4. Losses, metrics, models and optimisers: built once per replica by your hooks. Workers
    //       meet here, check that their models agree, and start from the chief's weights.
    troupe::TrainState state = strategy->create_state(hooks, options.train.seed);

    // 5. Data: every replica reads only its own share of each global batch.
    const troupe::DistributedSplits data = strategy->distribute(
        hooks.create_datasets(), {options.train.batch_size, options.train.seed});

    // 6. Train, validating after each epoch. With --model-dir it saves, and goes on where it was.
    const troupe::History history = troupe::train(*strategy, hooks, state, data, options.train);

    // 7. Test. Only the chief prints the numbers, which all ranks have computed together; with
    // parameter servers it computes them alone.
    const troupe::Report test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);

    strategy->close();  // collective goodbye; the destructor only closes sockets
    return 0;
  });
}
