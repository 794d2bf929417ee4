#include "estimator/job.h"

#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "estimator/mode_output.h"
#include "servers/parameter_server.h"
#include "train/evaluate.h"
#include "train/make_strategy.h"
#include "train/summary.h"

namespace troupe {
namespace {

bool is_training(Mode mode) { return mode == Mode::train || mode == Mode::train_and_evaluate; }

}  // namespace

Job::Job(const Hooks& hooks, const Options& options, JobExtras extras)
    : hooks_(hooks), options_(options), extras_(std::move(extras)) {
  if (options_.mode != Mode::train_and_evaluate || options_.strategy.cluster.is_server()) return;
  TrainSpec train = train_spec(options_.train, options_.eval);
  EvalSpec eval = eval_spec(options_.eval);
  if (!extras_.exporters.empty()) eval.exporters = extras_.exporters;
  // What the flags ask for comes first, as the options' own actions do.
  Actions& actions = extras_.callbacks.actions;
  actions.insert(actions.begin(), train.companions.actions.begin(), train.companions.actions.end());
  train.companions = std::move(extras_.callbacks);
  evaluated_ = std::make_unique<EvaluatedTraining>(estimator(), std::move(train), std::move(eval));
}

Job::~Job() = default;

Estimator& Job::estimator() {
  if (!estimator_) {
    Estimator plain(hooks_, {options_.train, options_.strategy, extras_.feature_names, std::nullopt,
                             extras_.exported});
    estimator_.emplace(extras_.metrics.empty() ? std::move(plain)
                                               : add_metrics(plain, extras_.metrics));
  }
  return *estimator_;
}

bool Job::done_without_training() {
  const Cluster& cluster = options_.strategy.cluster;
  if (!is_training(options_.mode)) {
    if (cluster.rank > 0 || cluster.is_server()) {
      log_info("this mode is the chief's: nothing to do here");
    } else {
      use_model();
    }
    return true;
  }
  if (serve_if_server(hooks_, options_.strategy)) return true;
  if (!evaluated_) return false;
  if (options_.strategy.cluster.is_evaluator()) {
    report(evaluated_->run_evaluator());
    return true;
  }
  const auto ended = estimator().nothing_to_train();
  if (ended) after_training(*ended);
  return ended.has_value();
}

void Job::use_model() {
  const UseOptions& use = options_.use;
  const bool needs_checkpoint = use.require_checkpoint && options_.mode != Mode::export_model;
  if (needs_checkpoint && use.checkpoint.empty() && !estimator().latest_checkpoint()) {
    throw ConfigError("--require-checkpoint is given, and there is no checkpoint in " +
                          options_.train.model_dir + ".",
                      "check --model-dir, or train first.");
  }
  if (options_.mode == Mode::evaluate) {
    EvaluateCall call = eval_spec(options_.eval);
    call.checkpoint = use.checkpoint;
    const Evaluation evaluation = estimator().evaluate(call);
    if (options_.train.json_summary) detail::print(evaluation);
  } else if (options_.mode == Mode::predict) {
    PredictCall call;
    call.keys = use.predict_keys;
    call.per = use.predict_batches ? PredictionStream::Per::batch : PredictionStream::Per::example;
    call.checkpoint = use.checkpoint;
    detail::print(estimator().predict(call), use.predict_examples);
  } else {
    const std::string base =
        use.export_dir.empty() ? options_.train.model_dir + "/export/manual" : use.export_dir;
    (void)detail::print_line(estimator().export_model(base, use.checkpoint));
  }
}

Callbacks Job::callbacks() {
  if (!evaluated_) return std::move(extras_.callbacks);
  Callbacks callbacks = evaluated_->training().companions;
  callbacks.validation = Callbacks::Validation::at_checkpoints;
  return callbacks;
}

void Job::after_training(const History& history) {
  if (evaluated_) report(evaluated_->after_training(history));
}

void Job::report(const TrainAndEvaluateResult& result) const {
  if (options_.train.json_summary) detail::print(result);
}

void run_job(const Hooks& hooks, const Options& options, JobExtras extras) {
  Job job(hooks, options, std::move(extras));
  if (job.done_without_training()) return;
  const auto strategy = make_strategy(options.strategy);
  TrainState state = strategy->create_state(hooks, options.train.seed);
  const DistributedSplits data =
      strategy->distribute(hooks.create_datasets(), options.train.batches());
  const History history = train(*strategy, hooks, state, data, options.train, job.callbacks());
  summarize(*strategy, state, history, test(*strategy, hooks, state, data), options.train);
  strategy->close();
  job.after_training(history);
}

}  // namespace troupe
