// TrainSpec and EvalSpec: what train_and_evaluate trains on and for how long, what it evaluates on
// and how often, and what it exports. Names and defaults are Estimator's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/core/options/train_options.h"
#include "troupe/data/dataset.h"
#include "troupe/export/exporter.h"
#include "troupe/train/evaluation/evaluation.h"
#include "troupe/train/loop.h"

namespace troupe {

/// One training.
struct TrainSpec {
  /// Makes the data set; called once. Null: the training split.
  std::function<std::shared_ptr<const Dataset>()> input;
  std::optional<std::int64_t> steps;      // this many more; not together with max_steps
  std::optional<std::int64_t> max_steps;  // absolute. Neither: as the estimator's options say
  /// Actions run on every worker, listeners on the chief.
  Callbacks callbacks;

  /// Throws: ConfigError that names the field.
  void validate() const;
};

/// One evaluation.
struct EvaluateCall {
  /// As TrainSpec's; null: the validation split, or else the test split.
  std::function<std::shared_ptr<const Dataset>()> input;
  std::optional<std::int64_t> steps;       // batches; unset: all
  std::optional<std::int64_t> batch_size;  // unset: as in training
  std::string name;                        // results go to eval_<name>; empty: eval
  std::string checkpoint;                  // empty: the newest, or else what training starts from
  Actions actions;                         // called around every batch; ready and end as well
  /// The data of create_datasets is to be that of the training which saved the checkpoint.
  bool is_trainings_data = false;
  /// What the workers of the training have come to together, of this checkpoint: it is written
  /// down, and nothing is evaluated.
  std::optional<Evaluation> known;
  /// A process that was lost may have written this evaluation's summaries: they are there once.
  bool is_repeated = false;
};

/// The evaluations of train_and_evaluate, when they happen, and what is exported after them. Of at
/// most 100 batches, unless `steps` says otherwise; `checkpoint` is filled in.
struct EvalSpec : EvaluateCall {
  EvalSpec() { steps = 100; }

  std::vector<std::shared_ptr<Exporter>> exporters;
  double start_delay_secs = 120;            // of the evaluator role; without effect elsewhere
  double throttle_secs = 600;               // between starts of evaluations; 0: every checkpoint
  std::optional<double> idle_timeout_secs;  // of the evaluator role; unset: waits for ever

  /// Throws: ConfigError that names the field.
  void validate() const;
};

/// The specs that flags describe (cli/), exporters included.
[[nodiscard]] TrainSpec train_spec(const TrainOptions& train);
[[nodiscard]] EvalSpec eval_spec(const EvalOptions& eval);

}  // namespace troupe
