// template/main.cpp -- the whole program, in reading order; the numbers are my_hooks.h's TODOs.
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
    troupe::Job job(hooks, options);          // this process's role
    if (job.done_without_training()) return;  // servers, evaluators, --mode evaluate|predict|export

    const auto strategy = troupe::make_strategy(options.strategy);  // this process's place in it
    // 2.-4. Once per replica. The workers connect here and start from the chief's weights.
    auto state = strategy->create_state(hooks, options.train.seed);
    // 5. Every replica reads its own share of each global batch.
    const auto data = strategy->distribute(hooks, options.train.batches());

    // 6. The loop is yours to change; troupe::TrainingRun documents what each line does.
    troupe::TrainingRun run(*strategy, hooks, state, data, options.train, job.callbacks());
    for (auto& epoch : run.epochs()) {
      for (const auto& batch : epoch) run.train_step(batch);  // all save, log and stop together
      run.validate();
    }
    const auto history = run.finish();

    // 7. Empty without test data. The chief prints the result over all workers.
    const auto test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();            // collective shutdown; the destructor only closes sockets
    job.after_training(history);  // in train_and_evaluate: the last evaluation, if due here
  });
}
