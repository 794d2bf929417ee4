// Job: what this process does, by --mode and its role in the cluster. It carries out everything but
// training, and has --mode train_and_evaluate train by the loop in main:
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

#include "troupe/core/options/options.h"
#include "troupe/estimator/extenders.h"
#include "troupe/estimator/train_and_evaluate.h"

namespace troupe {

class EvaluatedTraining;

/// What a program's modes need besides hooks and flags.
struct JobExtras {
  std::vector<std::string> feature_names = {};            // as EstimatorOptions::feature_names
  std::vector<AddedMetric> metrics = {};                  // of evaluations, besides the hooks' own
  std::vector<std::shared_ptr<Exporter>> exporters = {};  // instead of those that --exporter names
  Callbacks callbacks = {};                               // of training, in every mode that trains
  /// Of exported models. The flags' format and lengths apply where they are given.
  ModelExportOptions exported = {};
};

class Job {
 public:
  /// `hooks` outlives it. Throws: ConfigError if mode, role and hooks do not fit together, before
  /// anything is started or written: also if a model is to be exported but predict_step cannot take
  /// an example.
  Job(const Hooks& hooks, const Options& options, JobExtras extras = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Does all the work of a process that does not train, and returns true: a parameter server, an
  /// evaluator, --mode evaluate, predict (one JSON object per line on stdout) or export (the path
  /// on stdout), which only the chief runs, or --dry-run
  /// (estimator/dry_run.h; collective), which trains and saves nothing. With --json-summary the
  /// last line of stdout is a JSON object. False, at once: train. Blocks: as long as that takes.
  /// Throws: as Estimator's verbs; EnvironmentError if stdout cannot be written.
  [[nodiscard]] bool done_without_training();

  /// For the TrainingRun: the extras' own, early stopping, and in train_and_evaluate the callbacks
  /// that evaluate and export at checkpoints. Call once.
  [[nodiscard]] Callbacks callbacks();

  /// After leaving the other workers, which do not wait for it: in train_and_evaluate the chief
  /// marks the end and evaluates the last checkpoint, unless an evaluator does.
  /// Collective: no.  Throws: ExportError if an exporter failed at any evaluation.
  void after_training(const History& history);

 private:
  /// For modes that do more than train; made on first use, because it reads data and model.
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

/// template/main.cpp after its hooks, for programs that keep the loop as it is: the whole job that
/// these options describe.  Collective: yes.  Throws: as Job and train().
void run_job(const Hooks& hooks, const Options& options, JobExtras extras = {});

}  // namespace troupe
