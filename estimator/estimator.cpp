#include "troupe/estimator/estimator.h"

#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/file_system.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/data/data_digest.h"
#include "troupe/estimator/evaluation_pass.h"
#include "troupe/estimator/extenders.h"
#include "troupe/estimator/loaded_model.h"
#include "troupe/export/export_directory.h"
#include "troupe/export/predictor.h"
#include "troupe/hooks/make_datasets.h"
#include "troupe/hooks/tensors/random_guard.h"
#include "troupe/report/run_journal.h"
#include "troupe/report/summary_writer.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/kinds/make_strategy.h"
#include "troupe/strategies/sharing_failure.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/checkpoint/warm_start.h"
#include "troupe/train/loop.h"

namespace troupe {
namespace {

/// For a run without --model-dir: its files are meant to be thrown away.
std::string temporary_model_dir() {
  std::string path = std::filesystem::temp_directory_path() / "troupe-model-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    throw EnvironmentError("a temporary model directory could not be made.",
                           "set model_dir, or TMPDIR to a folder that can be written.");
  }
  log_warning("no model_dir is set: this run uses ", path);
  return path;
}

/// A cluster that was filled by hand: what cli/cluster/ ensures of every other one.
/// Throws: ConfigError naming the first member that does not fit.
void check_cluster(const Cluster& cluster) {
  const auto require = [](bool valid, const std::string& cause, const std::string& fix) {
    if (!valid) throw ConfigError("the estimator's cluster " + cause, fix);
  };
  const int size = cluster.world_size();
  const auto servers = static_cast<int>(cluster.servers.size());
  require(size > 0, "has no members.", "leave it as it is to train alone, or list every worker.");
  require(cluster.rank >= 0 && cluster.rank < size,
          text("gives rank ", cluster.rank, " to this process, and has ", size,
               size == 1 ? " member." : " members."),
          "set rank to this process's index in members.");
  require(cluster.server >= -1 && cluster.server < servers,
          text("says that this process is server ", cluster.server, ", and has ", servers, "."),
          "set server to this process's index in servers, or to -1 for a worker.");
  require(size == 1 || servers > 0 || cluster.members.front().address.has_value(),
          text("has ", size, " members, the first of them without an address."),
          "give the chief, members[0], the address that it listens on.");
  require(size == 1 || !cluster.is_evaluator(),
          text("makes this process the evaluator and has ", size, " members."),
          "give the evaluator a cluster with itself as the only member.");
  std::set<std::string> tasks;
  for (const auto* group : {&cluster.members, &cluster.servers}) {
    for (const Member& member : *group) {
      require(!member.task.empty() && tasks.insert(member.task).second,
              text("has a member without a task name, or two named \"", member.task, "\"."),
              "give each a name of its own, for example worker/1.");
      require(group == &cluster.members || member.address.has_value(),
              text("has no address for the server \"", member.task, "\"."),
              "give every server the address that it listens on.");
    }
  }
}

EstimatorOptions checked_options(EstimatorOptions options) {
  options.train.validate();
  check_cluster(options.strategy.cluster);
  if (options.train.batch_size < 1) {
    throw ConfigError("batch_size is below 1.", "give the number of examples of a global batch.");
  }
  if (options.train.model_dir.empty()) options.train.model_dir = temporary_model_dir();
  validate(options.exported);
  validate(options.train.warm_start);
  return options;
}

c10::Device device_of(const EstimatorOptions& options) {
  return detail::parse_device(detail::first_device(options.strategy));
}

std::vector<NamedTensor> variables_in(const std::string& model_dir) {
  const auto newest = newest_good_checkpoint(model_dir);
  if (newest) return read_weights(*newest);
  throw ConfigError("there is no checkpoint in " + model_dir + " to look at.",
                    "train first, or set model_dir to where the checkpoints are.");
}

/// Without a checkpoint: weights as training would start from them, warm or fresh.
std::unique_ptr<LoadedModel> make_model(const std::shared_ptr<const Hooks>& hooks,
                                        const EstimatorOptions& options,
                                        const std::string& checkpoint) {
  auto model = std::make_unique<LoadedModel>(*hooks, options.strategy, options.train.seed);
  if (!checkpoint.empty()) {
    model->load(checkpoint);
  } else if (const WarmStart& warm_start = options.train.warm_start; !warm_start.from.empty()) {
    copy_from(warm_start, model->replica());
  }
  return model;
}

/// The given checkpoint or the newest good one of the directory; "": there is none.
std::string source_of(const std::string& checkpoint, const std::string& model_dir) {
  if (checkpoint.empty()) return newest_good_checkpoint(model_dir).value_or("");
  const CheckpointPath path = split_checkpoint_path(checkpoint);
  PosixFileSystem files(path.model_dir);
  if (files.status(checkpoint_name(path.step))) return checkpoint;
  throw CheckpointError("there is no checkpoint " + checkpoint + ".",
                        "name an existing one: <model_dir>/model.ckpt-<step>.");
}

/// Whose examples a model is tried on.
const std::shared_ptr<const Dataset>& example_split(const Splits& all) {
  return all.validation ? all.validation : all.test ? all.test : all.train;
}

/// Two examples for the model to be traced with, without labels.
std::vector<NamedTensor> example_features(const Splits& splits,
                                          const std::vector<std::string>& names) {
  const auto& data = example_split(splits);
  if (!data || data->size() == 0) {
    throw ConfigError("there is no data to trace the model with.",
                      "return a split with examples from create_datasets.");
  }
  // Two examples; a data set of one gives it twice.
  const auto indices = torch::tensor({std::int64_t{0}, data->size() > 1 ? std::int64_t{1} : 0});
  return detail::split_fields(data->get(indices), names).features;
}

/// Throws: ConfigError if these are other data than the training had that saved `checkpoint`. Of
/// each split a few examples are compared.
void check_same_data(const Splits& splits, const std::string& checkpoint, std::uint64_t seed) {
  const Splits evaluated{nullptr, splits.validation, splits.test};  // it may train on an input
  const auto found =
      data_difference(data_digest(evaluated, "", seed), read_data_digest(checkpoint));
  if (!found) return;
  throw ConfigError(
      text("create_datasets gives this evaluation other data than the training: ", found->what,
           " is ", found->mine, ", in the training it is ", found->theirs, "."),
      "give every process the same files, and draw a split from LibTorch's generator or from a "
      "seed of yours, not anew at each call; other data is evaluated by --mode evaluate.");
}

/// Whether training would end before its first step, and has nothing left to report. Only for a
/// process that trains alone: in a group the workers must agree. `newest` is the newest
/// checkpoint's path, if there is one.
bool is_trained(const TrainOptions& options, const Cluster& cluster,
                const std::optional<std::string>& newest) {
  if (cluster.world_size() > 1 || !cluster.servers.empty() || !newest) return false;
  if (!options.max_steps || options.resume == Resume::never) return false;
  const std::int64_t step = split_checkpoint_path(*newest).step;
  return step >= *options.max_steps && RunJournal::has_end(options.model_dir, step);
}

}  // namespace

Estimator::Estimator(const Hooks& hooks, EstimatorOptions options)
    : Estimator(std::shared_ptr<const Hooks>(std::shared_ptr<const Hooks>(), &hooks),
                std::move(options)) {}

Estimator::Estimator(std::shared_ptr<const Hooks> hooks, EstimatorOptions options)
    : training_hooks_(std::move(hooks)),
      hooks_(training_hooks_),
      options_(checked_options(std::move(options))) {
  if (!hooks_) throw ConfigError("the estimator got no hooks.", "pass an object of your class.");
}

Estimator::~Estimator() = default;
Estimator::Estimator(Estimator&&) noexcept = default;

Estimator Estimator::with_hooks(std::shared_ptr<const Hooks> hooks) const {
  Estimator other(std::move(hooks), options_);
  other.training_hooks_ = training_hooks_;
  return other;
}

History Estimator::train(const TrainSpec& spec) {
  spec.validate();
  const Cluster& cluster = options_.strategy.cluster;
  if (cluster.is_evaluator() || cluster.is_server()) {
    const char* const role = cluster.is_server() ? "ps" : "evaluator";
    throw ConfigError(text("train was called in the role \"", role, "\", which does not train."),
                      "call train_and_evaluate, which runs the part of each role.");
  }
  TrainOptions options = options_.train;
  if (spec.steps || spec.max_steps) {
    options.steps = spec.steps;
    options.max_steps = spec.max_steps;
  }
  if (const auto newest = latest_checkpoint(); is_trained(options, cluster, newest)) {
    log_info("nothing to train: ", *newest, " has reached max_steps ", *options.max_steps,
             "; raise max_steps, or use another model_dir, to train on.");
    History nothing;
    nothing.reason = text("max_steps ", *options.max_steps, " is reached");
    nothing.on_chief = cluster.is_chief();
    return nothing;
  }
  if (!strategy_) strategy_ = make_strategy(options_.strategy);
  return detail::sharing_failure(*strategy_, [&] { return train_together(options, spec); });
}

History Estimator::train_together(const TrainOptions& options, const TrainSpec& spec) {
  TrainState state = strategy_->create_state(*training_hooks_, options.seed);
  // Validation in training is the schedule's; every other one looks at checkpoints.
  const bool plateau = options.schedule.kind == Schedule::plateau;
  const DistributedSplits data = strategy_->distribute(
      {spec.input ? spec.input() : splits().train, plateau ? splits().validation : nullptr, nullptr,
       spec.input ? shuffled() : splits().sampler},
      options.batches());
  Callbacks callbacks = spec.callbacks;
  callbacks.evaluates_checkpoints = true;
  History history =
      troupe::train(*strategy_, *training_hooks_, state, data, options, std::move(callbacks));
  summarize(*strategy_, state, history, std::nullopt, options);
  return history;
}

void Estimator::close() {
  if (strategy_) strategy_->close();
  strategy_.reset();
}

const Splits& Estimator::splits() {
  if (!splits_) splits_ = detail::make_datasets(*training_hooks_, options_.train.seed);
  return *splits_;
}

LoadedModel& Estimator::evaluation_model(const std::string& checkpoint) {
  // Fresh weights need a fresh model; a checkpoint's fit any.
  if (!model_ || (checkpoint.empty() && !model_->is_fresh())) {
    model_ = make_model(hooks_, options_, checkpoint);
  } else if (!checkpoint.empty()) {
    model_->load(checkpoint);
  }
  return *model_;
}

Evaluation Estimator::evaluate(const EvaluateCall& call) {
  if (call.steps && *call.steps < 1) {
    throw ConfigError(text("steps is ", *call.steps, "."), "give a number of at least 1.");
  }
  const detail::RandomGuard guard(device_of(options_));
  const std::string checkpoint = source_of(call.checkpoint, config().model_dir);
  if (checkpoint.empty()) {
    log_warning("there is no checkpoint in ", config().model_dir, ": fresh weights are evaluated");
  } else {
    log_info("evaluating ", checkpoint);
    if (call.is_trainings_data && !call.input)
      check_same_data(splits(), checkpoint, options_.train.seed);
  }
  const auto start = steady_clock().now();
  const auto compute = [&] {
    detail::EvaluationPass pass;
    pass.steps = call.steps;
    pass.actions = call.actions;
    std::shared_ptr<const Dataset> input = call.input ? call.input() : splits().validation;
    if (!call.input && !input) {
      input = splits().test;
      pass.phase = Phase::test;
    }
    const auto batch = call.batch_size.value_or(options_.train.batch_size);
    LoadedModel& model = evaluation_model(checkpoint);
    pass.global_step = model.step();
    return detail::run_evaluation(
        *hooks_, model.replica(),
        detail::in_order(input, batch, options_.train.loader, "evaluate on"), pass);
  };
  const Evaluation evaluation = call.known ? *call.known : compute();
  log_info("evaluation (",
           call.known ? std::string("by all workers")
                      : text(Seconds(steady_clock().now() - start).count(), " sec"),
           "): ", to_line(evaluation));
  write_summary(call, evaluation, checkpoint);
  return evaluation;
}

void Estimator::write_summary(const EvaluateCall& call, const Evaluation& evaluation,
                              const std::string& source) {
  const std::string directory = evaluation_directory(call.name);
  auto& writer = summaries_[directory];
  if (!writer) writer = std::make_unique<SummaryWriter>(directory);
  std::vector<Scalar> scalars;
  for (const auto& [tag, value] : evaluation.metrics) scalars.push_back({tag, value});
  writer->write(evaluation.global_step, scalars, call.is_repeated);
  if (!source.empty())
    writer->write_text(evaluation.global_step, "checkpoint_path", source, call.is_repeated);
}

PredictionStream Estimator::predict(const PredictCall& call) {
  const detail::RandomGuard guard(device_of(options_));
  const std::string checkpoint = source_of(call.checkpoint, config().model_dir);
  if (checkpoint.empty()) {
    log_warning("there is no checkpoint in ", config().model_dir, ": fresh weights predict");
  }
  auto model = make_model(hooks_, options_, checkpoint);
  std::shared_ptr<const Dataset> input = call.input ? call.input() : splits().test;
  if (!call.input && !input) input = splits().validation;
  const auto data = detail::in_order(input, call.batch_size.value_or(options_.train.batch_size),
                                     options_.train.loader, "predict on");
  const auto one = input->get(torch::zeros({1}, torch::kInt64));
  const std::size_t features = detail::feature_names(options_.feature_names, one.size()).size();
  return PredictionStream(hooks_, std::move(model), data, call.keys, call.yield_single_examples,
                          features);
}

std::function<void(const std::string&)> Estimator::model_writer(
    const std::string& checkpoint, std::optional<ExportFormat> format) {
  return [this, checkpoint, format](const std::string& directory) {
    const detail::RandomGuard guard(device_of(options_));
    LoadedModel& model = evaluation_model(checkpoint);
    ModelExportOptions options = options_.exported;
    options.global_step = model.step();
    options.format = format.value_or(options.format);
    write_model(*hooks_, model.replica(), example_features(splits(), options_.feature_names),
                options, directory);
  };
}

Evaluation Estimator::evaluate_two() {
  const detail::RandomGuard guard(device_of(options_));
  detail::EvaluationPass pass;
  if (!splits().validation && splits().test) pass.phase = Phase::test;
  const auto& data = example_split(splits());
  const auto two = data ? first_of(data, 2) : data;
  return detail::run_evaluation(*hooks_, evaluation_model("").replica(),
                                detail::in_order(two, 2, {}, "evaluate on"), pass);
}

void Estimator::check_exportable(const std::vector<std::shared_ptr<Exporter>>& exporters) {
  const detail::RandomGuard guard(device_of(options_));
  Replica& replica = evaluation_model("").replica();
  const std::vector<NamedTensor> features = example_features(splits(), options_.feature_names);
  detail::check_predictions(*hooks_, replica, features);
  ModelExportOptions options = options_.exported;
  std::set<ExportFormat> tried;
  const auto write_model = [&] {
    if (tried.insert(options.format).second) check_model(*hooks_, replica, features, options);
  };
  for (const auto& exporter : exporters) {
    options.format = exporter->format().value_or(options_.exported.format);
    exporter->check(write_model, [&] { return evaluate_two(); });
  }
}

std::string Estimator::export_model(const std::string& base, const std::string& checkpoint) {
  const std::string source = source_of(checkpoint, config().model_dir);
  if (source.empty()) {
    throw ConfigError("there is no trained model in " + config().model_dir + ".",
                      "train first, or name a checkpoint.");
  }
  PosixFileSystem files(without_last_slashes(base));
  const std::string path = publish_export(files, model_writer(source));
  log_info("exported ", source, " to ", path);
  return path;
}

std::optional<std::string> Estimator::latest_checkpoint() const {
  return troupe::latest_checkpoint(config().model_dir);
}

std::vector<std::string> Estimator::variable_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables_in(config().model_dir)) names.push_back(name);
  return names;
}

at::Tensor Estimator::variable_value(const std::string& name) const {
  const auto all = variables_in(config().model_dir);
  for (const auto& [known, value] : all) {
    if (known == name) return value;
  }
  throw ConfigError("the checkpoint has no variable \"" + name + "\".",
                    "ask for one of: " + join_keys(all) + ".");
}

std::string Estimator::evaluation_directory(const std::string& name) const {
  return config().model_dir + (name.empty() ? "/eval" : "/eval_" + name);
}

}  // namespace troupe
