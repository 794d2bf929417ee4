// Job: what this process is here for, by --mode and its role in the cluster. It carries out all
// that is no training, and has --mode train_and_evaluate train by the loop that stands in main:
//
//   troupe::Job job(hooks, options);
//   if (job.done_without_training()) return;
//   ...
//   troupe::TrainingRun run(*strategy, hooks, state, data, options.train, job.callbacks());
//   ...
//   strategy->close();
//   job.after_training(history);
//
// Thread rule: one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/extenders.h"
#include "estimator/train_and_evaluate.h"
#include "options/options.h"

namespace troupe {

/// What a program's modes need beside hooks and flags.
struct JobExtras {
  std::vector<std::string> feature_names = {};  // as EstimatorOptions::feature_names
  std::vector<AddedMetric> metrics = {};        // of evaluations, beside the hooks' own
  Exporters exporters = {};                     // in place of those that --exporter names
  Callbacks callbacks = {};                     // of training, in every mode that trains
  ModelExportOptions exported = {};             // name and assets of exported models
};

class Job {
 public:
  /// `hooks` outlives it. Throws: ConfigError where mode, role and hooks do not go together, before
  /// anything is started or written: also where a model is to be exported and predict_step cannot
  /// take an example.
  Job(const Hooks& hooks, const Options& options, JobExtras extras = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Does the whole part of a process that does not train, and returns true: a parameter server,
  /// an evaluator, --mode evaluate, predict (one JSON object per line on stdout) or export (the
  /// path on stdout), which are the chief's alone, and a training whose last step is saved already.
  /// With --json-summary the last line of stdout is a JSON object. False, at once: train.
  /// Blocks: as long as that takes.  Throws: as Estimator's verbs; EnvironmentError where stdout
  /// cannot be written.
  [[nodiscard]] bool done_without_training();

  /// For the TrainingRun: the extras' own, early stopping, and in train_and_evaluate what evaluates
  /// and exports at checkpoints. Once.
  [[nodiscard]] Callbacks callbacks();

  /// After the goodbye to the other workers, which do not wait for it: in train_and_evaluate the
  /// chief marks the end and evaluates the last checkpoint, where no evaluator does.
  /// Collective: no.
  void after_training(const History& history);

 private:
  /// Where the mode does more than train, made when it is needed: it reads data and model.
  Estimator& estimator();
  /// --mode evaluate, predict or export.
  void use_model();
  void report(const TrainAndEvaluateResult& result) const;

  const Hooks& hooks_;
  const Options options_;
  JobExtras extras_;
  std::optional<Estimator> estimator_;
  std::unique_ptr<EvaluatedTraining> evaluated_;  // null: another mode
};

/// template/main.cpp after its hooks, for programs that leave the loop as it is: all that a job of
/// these options is.  Collective: yes.  Throws: as Job and train().
void run_job(const Hooks& hooks, const Options& options, JobExtras extras = {});

}  // namespace troupe
