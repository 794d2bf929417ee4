// template/main.cpp -- the whole program, in reading order; numbers are the TODOs of my_hooks.h.
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
    const MyOptions options(argc, argv);  // 1
    const MyHooks hooks(options);
    troupe::Job job(hooks, options);          // what this process is here for
    if (job.done_without_training()) return;  // servers, evaluators, --mode evaluate|predict|export

    const auto strategy = troupe::make_strategy(options.strategy);  // this process's place
    // 2.-4. Once per replica. The workers meet here and start from the chief's weights.
    auto state = strategy->create_state(hooks, options.train.seed);
    // 5. Every replica reads its own share of each global batch.
    const auto data = strategy->distribute(hooks.create_datasets(), options.train.batches());

    // 6. The loop is yours; troupe::TrainingRun says what each line does for it.
    troupe::TrainingRun run(*strategy, hooks, state, data, options.train, job.callbacks());
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) run.train_step(batch);  // saves, logs and stops together
      run.validate();
    }
    const auto history = run.finish();

    // 7. Unset without test data. The chief prints what all workers computed together.
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();            // collective goodbye; the destructor only closes sockets
    job.after_training(history);  // in train_and_evaluate: the last evaluation, where it is ours
  });
}
