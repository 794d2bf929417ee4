// run_mode: --mode, carried out on an estimator.
#pragma once

#include "estimator/estimator.h"
#include "estimator/specs.h"
#include "options/train_options.h"

namespace troupe {

/// train, train_and_evaluate, evaluate, predict (one JSON object per line on stdout) or export (the
/// path on stdout). With options.train.json_summary the last line of stdout is a JSON object.
/// Evaluate, predict and export are done by the chief alone.
/// Collective: as the verb is.  Throws: as the verbs do; EnvironmentError where stdout cannot be
/// written.
void run_mode(Mode mode, Estimator& estimator, const TrainSpec& train_spec,
              const EvalSpec& eval_spec, const UseOptions& use);

}  // namespace troupe
