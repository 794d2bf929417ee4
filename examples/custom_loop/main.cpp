// examples/custom_loop/main.cpp -- the training loop by hand, for those who want it to be theirs:
// the hooks of examples/mnist and the strategy's verbs. The numbers are those of troupe::train.
#include "examples/mnist/mnist_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    troupe::ProgramInfo program;
    program.modes = troupe::ProgramInfo::Modes::train_only;  // this loop is all there is
    const troupe::Options options = troupe::parse_options(argc, argv, {}, program);
    const MnistHooks hooks(options);
    if (troupe::serve_if_server(hooks, options.strategy)) return 0;
    const auto strategy = troupe::make_strategy(options.strategy);
    troupe::TrainState state = strategy->create_state(hooks, options.train.seed);
    const troupe::DistributedSplits data = strategy->distribute(
        hooks.create_datasets(), {options.train.batch_size, options.train.seed});

    // What one replica does with its part of a batch, as in any training step.
    const troupe::Step train_step = [&](troupe::Replica& replica, const troupe::Batch& batch) {
      return hooks.train_step(replica, batch);
    };

    // What train() makes of --lr-schedule and --ema-decay. Leave out what you do not need.
    const std::int64_t epochs = options.train.epochs.value_or(1);
    troupe::Pace& pace = strategy->pace();  // in step with other workers, or at its own
    troupe::LearningRateSchedule schedule(options.train.schedule, state,
                                          epochs * data.train->steps_per_epoch());
    troupe::keep_averages(state, options.train.ema_decay);

    pace.start(state, *data.train, epochs * pace.counts(*data.train).updates_per_epoch);
    double loss = 0;
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      double total = 0;
      for (const troupe::DistributedBatch& batch : data.train->epoch(epoch)) {
        const auto number = pace.next_step(state);  // none: others have ended it
        if (!number) break;
        schedule.apply(*number);
        const auto per_replica = strategy->run(train_step, state, batch);
        troupe::update_averages(state);
        loss = strategy->reduce(troupe::Reduction::sum, per_replica).front().second;
        total += loss * static_cast<double>(batch.global_examples);
        state.step = *number;
        if (state.step % 100 == 0) troupe::log_info("step ", state.step, ": loss = ", loss);
      }
      const auto mean = total / static_cast<double>(data.train->examples());
      const auto report =
          troupe::evaluate(*strategy, hooks, state, *data.validation, troupe::Phase::validation);
      schedule.observe(report);
      troupe::log_info("epoch ", epoch + 1, ": loss = ", mean, "; ", troupe::to_line(report));
    }

    pace.end(state, "all epochs are complete");

    troupe::History history;
    history.epochs = epochs;
    history.steps = state.step;
    const troupe::Report test = troupe::test(*strategy, hooks, state, data);
    troupe::summarize(*strategy, state, history, test, options.train);
    strategy->close();
    return 0;
  });
}
