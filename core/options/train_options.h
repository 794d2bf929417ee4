// Options of train/: where a run keeps its files, how long it trains, how often it saves, logs and
// summarises, what is evaluated and exported. Plain data, free of LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/options/data_options.h"
#include "troupe/core/options/metric_rules.h"

namespace troupe {

/// What happens when the loss or a gradient is not finite. Either way nothing is saved after it:
/// training can continue from the newest checkpoint.
enum class OnNonFinite {
  fail,  // NonFiniteError on every worker
  stop   // a warning; training ends cleanly
};

enum class Schedule { constant, step, cosine, plateau };
[[nodiscard]] constexpr const char* name_of(Schedule schedule) {
  constexpr const char* kNames[] = {"constant", "step", "cosine", "plateau"};
  return kNames[static_cast<int>(schedule)];
}

/// How the learning rate changes: the optimisers' own rates times a step-dependent factor.
struct ScheduleOptions {
  Schedule kind = Schedule::constant;
  std::int64_t warmup_steps = 0;  // the factor rises linearly to 1 first
  std::int64_t decay_steps = 0;   // step: between two drops; cosine: to the end, 0: max_steps
  double decay_factor = 0.1;      // step and plateau: of each drop
  double final_factor = 0;        // lower limit of the factor after the warm-up
  std::string metric = "loss";    // plateau: of the validation; which way is better it knows
  std::int64_t patience = 10;     // plateau: validations without improvement before a drop
};

/// Whether training continues from a checkpoint in its model directory. automatic: if there is one;
/// must: it is an error if there is none; never: it is an error if there is one.
enum class Resume { automatic, must, never };
[[nodiscard]] constexpr const char* name_of(Resume resume) {
  constexpr const char* kNames[] = {"auto", "must", "never"};
  return kNames[static_cast<int>(resume)];
}

/// The weights that a training starts from where its directory has no checkpoint; its optimisers
/// and counts start anew, and it may have another batch size, seed and data
/// (train/checkpoint/warm_start).
struct WarmStart {
  /// A checkpoint <dir>/model.ckpt-<step>, a model directory (its newest), an export, or a file of
  /// the safetensors format; empty: there is no warm start.
  std::string from;
  /// Which tensors: empty: all parameters and buffers; else those whose whole name matches one of
  /// these regular expressions, each of which has to match one.
  std::vector<std::string> variables = {};
  /// How names begin in `from` -> how they begin in this model; of several the first that fits.
  std::vector<std::pair<std::string, std::string>> prefixes = {};
  /// Which of them may be missing there, or have another shape, and stay as create_model made them:
  /// regular expressions of whole names.
  std::vector<std::string> missing = {};
  /// This model's name of a tensor -> its name in `from`, where they differ.
  std::map<std::string, std::string> previous_names = {};
};

struct RunOrigin;  // core/options/run_origin.h

struct TrainOptions {
  std::string model_dir;  // of the checkpoints; empty: nothing is saved or resumed
  std::uint64_t seed = 1;
  std::int64_t save_summary_steps = 100;  // steps between training summaries; 0: none
  std::int64_t save_histogram_steps = 0;  // steps between histograms of the model; 0: none
  // At most one of the two; neither: every 600 seconds; 0: never. Seconds by the chief's clock.
  std::optional<std::int64_t> save_checkpoints_steps;
  std::optional<double> save_checkpoints_secs;
  std::int64_t keep_checkpoint_max = 5;           // the newest N; 0: all
  double keep_checkpoint_every_n_hours = 10'000;  // and one per N hours, never deleted
  std::int64_t log_every = 100;                   // steps between log lines; 0: none
  std::uint64_t generation = 0;  // which start of the job; a later one takes over a model_dir

  std::optional<std::int64_t> epochs;     // unset: 1, or as many as max_steps or steps need
  std::optional<std::int64_t> max_steps;  // absolute; the limit reached first applies
  std::optional<std::int64_t> steps;      // this many more; not together with max_steps
  std::int64_t batch_size = 64;           // the global batch: all replicas' examples in a step
  bool drop_last = false;                 // an epoch's last batch is left out if it is short
  LoaderOptions loader{};
  double learning_rate = 0.03;
  double momentum = 0.9;
  double weight_decay = 0;
  ScheduleOptions schedule;
  double ema_decay = 0;       // of averaged weights, for evaluations; 0: none are kept
  std::string metrics_file;   // one JSON line per logged step; empty: none
  bool json_summary = false;  // the chief's last stdout line is one JSON object
  bool progress = true;       // a progress bar, on a terminal only
  /// Of the live page (report/status/status_server.h), on the chief; 0: the system chooses; unset:
  /// none.
  std::optional<std::uint16_t> status_port;
  std::string status_address;  // empty: loopback, without a token
  Resume resume = Resume::automatic;
  WarmStart warm_start;
  OnNonFinite on_non_finite = OnNonFinite::fail;
  /// The checkpoint that is the best by the loop's validations is kept beside the newest; unset:
  /// none is. Under train_and_evaluate EvalOptions::best says what is exported instead.
  std::optional<MetricRule> best;
  /// By the loop's validations; under train_and_evaluate by the evaluations.
  std::vector<StopRule> early_stopping;
  std::int64_t min_steps = 0;  // no early stop before this step
  /// Steps between two comparisons of the weights that the workers hold; they are also compared
  /// before a save. 0: only then.
  std::int64_t check_weights_every = 1000;
  /// For the run's journal; parse_options makes it. Null: the journal says less.
  std::shared_ptr<const RunOrigin> origin;

  bool dry_run = false;            // check all that can be checked before step 1, and end
  bool summary = false;            // the chief prints the table of parameters before it trains
  std::int64_t profile_steps = 0;  // steps of the run's start to be recorded as a timeline; 0: none

  /// For Strategy::distribute.
  [[nodiscard]] BatchPlan batches() const { return {batch_size, seed, loader, drop_last}; }
  /// Throws: ConfigError naming the field and its limits.
  void validate() const;
};

/// Options of train_and_evaluate and evaluate.
struct EvalOptions {
  std::optional<std::int64_t> steps = 100;  // batches; unset: the whole data set
  std::string name;                         // results go to eval_<name>; empty: eval
  std::optional<std::int64_t> batch_size;   // unset: as in training
  double start_delay_secs = 120;            // of the evaluator role, before its first look
  double throttle_secs = 600;               // between starts of evaluations; 0: every checkpoint
  std::optional<double> idle_timeout_secs;  // of the evaluator role; unset: waits for ever
  std::vector<std::string> exporters = {"latest"};  // any of latest, final, best, onnx
  std::optional<std::int64_t> exports_to_keep = 5;  // unset: all
  MetricRule best = {"loss"};                       // what the exporter best compares
};

/// What an exported model is written as.
enum class ExportFormat { torch_script, onnx };
[[nodiscard]] constexpr const char* name_of(ExportFormat format) {
  return format == ExportFormat::onnx ? "onnx" : "torchscript";
}

/// What the program does with its hooks.
enum class Mode { train, train_and_evaluate, evaluate, predict, export_model };
[[nodiscard]] constexpr const char* name_of(Mode mode) {
  constexpr const char* kNames[] = {"train", "train-and-evaluate", "evaluate", "predict", "export"};
  return kNames[static_cast<int>(mode)];
}

/// Options of --mode evaluate, predict and export.
struct UseOptions {
  std::string checkpoint;                 // a directory model.ckpt-N; empty: the newest
  std::vector<std::string> predict_keys;  // empty: all outputs
  std::int64_t predict_examples = 0;      // the first N; 0: all
  std::string export_dir;                 // empty: <model_dir>/export/manual
  /// Of every export, but for that of an exporter with a format of its own (onnx).
  ExportFormat export_format = ExportFormat::torch_script;
  std::vector<std::string> export_lengths;  // "tokens:1=length": dynamic ones beside the batch
};

}  // namespace troupe
