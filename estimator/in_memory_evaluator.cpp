#include "estimator/in_memory_evaluator.h"

#include <utility>

#include "core/error.h"
#include "train/learning/averaged_weights.h"

namespace troupe {

InMemoryEvaluator::InMemoryEvaluator(Estimator& estimator, Options options, const Clock& clock)
    : estimator_(estimator),
      options_(std::move(options)),
      timer_(Every::n_steps(options_.every_n_steps), clock) {
  if (estimator.options().strategy.cluster.world_size() == 1) return;
  throw ConfigError("an InMemoryEvaluator was given to a group of workers.",
                    "evaluate at checkpoints with train_and_evaluate, or train with one worker.");
}

void InMemoryEvaluator::ready(RunControl& run) { evaluate(run); }

void InMemoryEvaluator::after_step(const StepReport& report, RunControl& run) {
  if (timer_.due(report.step)) evaluate(run);
}

void InMemoryEvaluator::end(RunControl& run) {
  if (timer_.last_step() != run.step()) evaluate(run);
}

void InMemoryEvaluator::evaluate(RunControl& run) {
  timer_.mark(run.step());
  EvaluateCall call;
  call.input = options_.input;
  call.steps = options_.steps;
  call.name = options_.name;
  const AveragesInUse averages(run.averages(), run.replica());
  evaluations_.push_back(estimator_.evaluate_live(run.replica(), run.step(), call));
}

}  // namespace troupe
