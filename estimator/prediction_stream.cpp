#include "troupe/estimator/prediction_stream.h"

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/estimator/loaded_model.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/random_guard.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/evaluate.h"

namespace troupe {
namespace {

Predictions wanted(Predictions all, const std::vector<std::string>& keys) {
  if (keys.empty()) return all;
  Predictions some;
  std::string names;
  for (const auto& [name, value] : all) {
    names += names.empty() ? name : ", " + name;
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) some.emplace_back(name, value);
  }
  if (some.empty()) {
    throw ConfigError("predict_step gives none of the outputs that were asked for.",
                      "ask for some of: " + names + ".");
  }
  return some;
}

/// The number of examples that all outputs agree on.
std::int64_t common_length(const Predictions& outputs) {
  std::int64_t length = -1;
  for (const auto& [name, value] : outputs) {
    const std::int64_t own = value.dim() == 0 ? -1 : value.size(0);
    if (own < 0 || (length >= 0 && own != length)) {
      throw ConfigError(text("prediction \"", name,
                             "\" has a batch length that differs from that "
                             "of the first one: its shape is ",
                             value.sizes(), "."),
                        "return [B, ...] for every output, or ask for whole batches.");
    }
    length = own;
  }
  return std::max<std::int64_t>(length, 0);
}

}  // namespace

LoadedModel::LoadedModel(const Hooks& hooks, const StrategyOptions& training, std::uint64_t seed) {
  StrategyOptions alone;
  alone.device = detail::first_device(training);
  alone.step.precision = training.step.precision;
  strategy_ = make_one_device(alone);  // not make_strategy: the compute threads are set
  const detail::RandomGuard guard(detail::parse_device(alone.device));
  state_ = strategy_->create_state(hooks, seed);
}

void LoadedModel::load(const std::string& checkpoint) {
  fresh_ = false;  // whatever becomes of it
  load_weights(replica(), checkpoint);
  state_.step = split_checkpoint_path(checkpoint).step;
}

PredictionStream::PredictionStream(std::shared_ptr<const Hooks> hooks,
                                   std::unique_ptr<LoadedModel> model,
                                   const DistributedDataset& data, std::vector<std::string> keys,
                                   bool yield_single_examples, std::size_t features)
    : hooks_(std::move(hooks)),
      model_(std::move(model)),
      keys_(std::move(keys)),
      yield_single_examples_(yield_single_examples),
      features_(features),
      epoch_(data.epoch(0)) {}

PredictionStream::~PredictionStream() = default;
PredictionStream::PredictionStream(PredictionStream&&) noexcept = default;

bool PredictionStream::read_batch() {
  const DistributedBatch* const read = epoch_.next();
  if (read == nullptr) return false;
  Replica& replica = model_->replica();
  const detail::RandomGuard guard(replica.place().device);
  Batch batch = read->replicas.front();
  if (features_ > 0) batch.fields.resize(features_);
  batch_ = wanted(detail::predict_batch(*hooks_, replica, std::move(batch), model_->step()), keys_);
  next_example_ = 0;
  examples_ = yield_single_examples_ ? common_length(batch_) : 1;
  return true;
}

std::optional<Predictions> PredictionStream::next() {
  while (next_example_ >= examples_) {
    if (!read_batch()) {
      examples_ = next_example_ = 0;
      return std::nullopt;
    }
  }
  const std::int64_t example = next_example_++;
  if (!yield_single_examples_) return batch_;
  Predictions one;
  for (const auto& [name, value] : batch_) one.emplace_back(name, value[example]);
  return one;
}

}  // namespace troupe
