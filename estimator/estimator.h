// Estimator: hooks, options and a model directory as one object with the verbs train, evaluate,
// predict and export. A verb takes the state that it needs from the newest checkpoint, so two
// processes may use one directory: one trains, another evaluates.
//
//   troupe::Estimator estimator(hooks, {options.train, options.strategy});
//   estimator.train();
//   const troupe::Evaluation evaluation = estimator.evaluate();
//   auto predictions = estimator.predict();
//   while (const auto example = predictions.next()) use(*example);
//
// Thread rule: one thread. Only train() is collective; the other verbs work in this process alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/estimator/prediction_stream.h"
#include "troupe/estimator/specs.h"
#include "troupe/export/model_export.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/evaluation/evaluation.h"

namespace troupe {

struct AddedMetric;
class LoadedModel;
class SummaryWriter;

struct EstimatorOptions {
  TrainOptions train;  // its model_dir empty: a new temporary directory, with a warning
  StrategyOptions strategy;
  /// Names of a batch's leading fields, which are the model's inputs; the fields after them are
  /// labels. Empty: all fields but the last, or the only one, are inputs, named "input" or
  /// "input_0", "input_1", ...
  std::vector<std::string> feature_names = {};
  ModelExportOptions exported = {};  // of exported models; the step is filled in
};

struct PredictCall {
  /// Null: the test split, or else the validation split.
  std::function<std::shared_ptr<const Dataset>()> input;
  std::vector<std::string> keys;           // outputs to return; empty: all
  std::optional<std::int64_t> batch_size;  // unset: as in training
  std::string checkpoint;                  // empty: the newest, or else what training starts from
  bool yield_single_examples = true;       // else whole batches
};

class Estimator {
 public:
  /// `hooks` outlives the estimator. Throws: ConfigError if an option is out of range.
  Estimator(const Hooks& hooks, EstimatorOptions options);
  Estimator(std::shared_ptr<const Hooks> hooks, EstimatorOptions options);
  ~Estimator();
  Estimator(Estimator&&) noexcept;

  /// Trains from the newest checkpoint, or from the start; see troupe::train. In one process it
  /// returns at once, without making a file or a model, if the checkpoint has reached max_steps.
  /// Collective: yes, over the workers of options.strategy.cluster, which it meets at the first
  /// call. Throws: ConfigError in an evaluator or parameter server; as troupe::train.
  History train(const TrainSpec& spec = {});

  /// Losses and metrics of a checkpoint; also written as summaries to evaluation_directory(name).
  /// Training's random streams are left alone.
  /// Throws: ConfigError for a metric with a reserved name, data that is missing, or other data
  /// than the training's where it is to be the same; CheckpointError.
  [[nodiscard]] Evaluation evaluate(const EvaluateCall& call = {});

  /// Outputs of predict_step, one example or batch at a time, computed on demand.
  [[nodiscard]] PredictionStream predict(const PredictCall& call = {});

  /// Exports into a new directory below `base`; returns its path. docs/export.md lists the files.
  /// Throws: ConfigError without a trained model; as write_model.
  std::string export_model(const std::string& base, const std::string& checkpoint = "");
  /// Runs predict_step on one example with fresh weights, and lets every exporter try what it
  /// needs: what cannot be exported is known before training, not at its end. Writes nothing.
  /// Throws: ConfigError.
  void check_exportable(const std::vector<std::shared_ptr<Exporter>>& exporters);
  /// An evaluation of two examples with fresh weights, to see what evaluations will name. Writes
  /// nothing. Throws: as evaluate.
  [[nodiscard]] Evaluation evaluate_two();
  /// For exporters: writes the model of `checkpoint` into a directory. Valid as long as this.
  /// `format`: unset: as the options say.
  [[nodiscard]] std::function<void(const std::string&)> model_writer(
      const std::string& checkpoint, std::optional<ExportFormat> format = std::nullopt);

  /// Unset: there is none.
  [[nodiscard]] std::optional<std::string> latest_checkpoint() const;
  /// Parameters and buffers of the newest checkpoint. Throws: ConfigError if there is none.
  [[nodiscard]] std::vector<std::string> variable_names() const;
  [[nodiscard]] at::Tensor variable_value(const std::string& name) const;
  [[nodiscard]] std::string evaluation_directory(const std::string& name) const;

  /// Leaves the other workers, if train() met them.  Collective: yes.
  void close();

  [[nodiscard]] const EstimatorOptions& options() const { return options_; }
  [[nodiscard]] const TrainOptions& config() const { return options_.train; }
  [[nodiscard]] const std::shared_ptr<const Hooks>& hooks() const { return hooks_; }

 private:
  friend Estimator add_metrics(const Estimator& estimator, std::vector<AddedMetric> metrics);
  friend Estimator forward_features(const Estimator& estimator, std::vector<std::string> keys);
  /// The same estimator with other hooks for evaluate, predict and export; train keeps its own, so
  /// checkpoints fit both.
  [[nodiscard]] Estimator with_hooks(std::shared_ptr<const Hooks> hooks) const;
  /// What train does once the strategy exists.
  History train_together(const TrainOptions& options, const TrainSpec& spec);
  [[nodiscard]] const Splits& splits();
  [[nodiscard]] LoadedModel& evaluation_model(const std::string& checkpoint);
  /// `source`: the checkpoint's path; "": fresh weights.
  void write_summary(const EvaluateCall& call, const Evaluation& evaluation,
                     const std::string& source);

  std::shared_ptr<const Hooks> training_hooks_;
  std::shared_ptr<const Hooks> hooks_;  // of the other verbs
  EstimatorOptions options_;
  std::unique_ptr<Strategy> strategy_;  // from the first train() on
  std::optional<Splits> splits_;        // create_datasets is called once
  std::unique_ptr<LoadedModel> model_;  // for evaluation and export; made once, loaded often
  std::map<std::string, std::unique_ptr<SummaryWriter>> summaries_;  // by directory
};

}  // namespace troupe
