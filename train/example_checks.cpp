#include "troupe/train/example_checks.h"

#include <ATen/Parallel.h>
#include <c10/util/ScopeExit.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/data/shard_plan.h"
#include "troupe/data/step_source.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/random_guard.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/evaluate.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kTogether = 4;  // examples of a replica

/// Forward passes in float32 while what it returns lives: rounding to 16 bits depends on the size
/// of a batch.
auto in_full_precision(const TrainState& state) {
  const auto set = [&state](Precision precision) {
    for (const auto& replica : state.replicas) ReplicaDriver(*replica).set_precision(precision);
  };
  const Precision own = ReplicaDriver(*state.replicas.front()).step_options().precision;
  set(Precision::float32);
  return c10::make_scope_exit([set, own] { set(own); });
}

/// One compute thread while what it returns lives: a few examples are done before others have woken
/// up.
auto one_compute_thread() {
  const int own = at::get_num_threads();
  at::set_num_threads(1);
  return c10::make_scope_exit([own] { at::set_num_threads(own); });
}

LossValues metric_values(const Report& report) {
  LossValues all;
  for (const MetricValue& metric : report.metrics) all.emplace_back(metric.name, metric.value);
  return all;
}

bool is_close(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return true;  // others find that
  return std::abs(a - b) <= 1e-3 * std::max(std::abs(a), std::abs(b)) + 1e-6;
}

/// The name of the first value that is the same for two seeds and another one in halves; "": none.
std::string first_other(const LossValues& whole, const LossValues& again,
                        const LossValues& halves) {
  for (std::size_t i = 0; i < std::min({whole.size(), again.size(), halves.size()}); ++i) {
    const auto& [name, value] = whole[i];
    if (name != halves[i].first || !is_close(value, again[i].second)) continue;
    if (!is_close(value, halves[i].second)) return name;
  }
  return "";
}

bool is_alike(const Report& whole, const Report& halves) {
  return first_other(whole.losses, whole.losses, halves.losses).empty() &&
         first_other(metric_values(whole), metric_values(whole), metric_values(halves)).empty();
}

bool is_comparable(const TrainState& state) {
  return std::all_of(state.replicas.begin(), state.replicas.end(),
                     [](const auto& replica) { return ReplicaDriver(*replica).is_comparable(); });
}

/// Replica r gets its examples, of which it has `own`, `together` in each batch.
Sampler same_shares(std::int64_t own, std::int64_t together) {
  return {"same shares", [=](const EpochDraw& draw) {
            std::vector<std::int64_t> order;
            for (std::int64_t first = 0; first < own; first += together) {
              for (std::int64_t replica = 0; replica < draw.examples / own; ++replica) {
                for (std::int64_t i = 0; i < together; ++i)
                  order.push_back(replica * own + first + i);
              }
            }
            return order;
          }};
}

/// The name of the first module that normalises over the examples of a share, and trains.
std::string batch_norm_in(const Replica& replica) {
  for (const auto& [model, module] : replica.models()) {
    for (const auto& item : module->named_modules(model)) {
      const auto* const own = item.value().get();
      const bool normalises = dynamic_cast<const torch::nn::BatchNorm1dImpl*>(own) != nullptr ||
                              dynamic_cast<const torch::nn::BatchNorm2dImpl*>(own) != nullptr ||
                              dynamic_cast<const torch::nn::BatchNorm3dImpl*>(own) != nullptr;
      if (normalises && own->is_training()) return item.key();
    }
  }
  return "";
}

/// "field 1 of examples 17, 99"; "": all fields are finite.
std::string non_finite_field(const DistributedBatch& batch, std::size_t share) {
  constexpr std::size_t kMost = 8;
  const Batch& own = batch.replicas[share];
  if (own.stand_in) return "";
  for (std::size_t f = 0; f < own.fields.size(); ++f) {
    const at::Tensor& field = own.fields[f];
    if (!field.is_floating_point() || field.numel() == 0) continue;
    const at::Tensor bad =
        field.isfinite().logical_not().reshape({field.size(0), -1}).any(1).nonzero().flatten();
    if (bad.numel() == 0) continue;
    const std::vector<std::int64_t> numbers = example_numbers(batch, share);
    std::vector<std::string> shown;
    for (std::int64_t k = 0; k < bad.numel() && shown.size() < kMost; ++k) {
      const auto row = static_cast<std::size_t>(bad[k].item<std::int64_t>());
      shown.push_back(numbers.empty() ? text("row ", row) : text(numbers[row]));
    }
    return text("field ", f, numbers.empty() ? " of its batch, " : " of training examples ",
                troupe::join(shown), bad.numel() > static_cast<std::int64_t>(kMost) ? ", ..." : "");
  }
  return "";
}

// What a worker finds, with the likelier root first.
constexpr char kField = 'f';
constexpr char kLoss = 'l';
constexpr char kNothing = 'n';

std::string root_here(const TrainState& state, const DistributedBatch& batch) {
  const std::size_t shares = std::min(state.replicas.size(), batch.replicas.size());
  for (std::size_t share = 0; share < batch.replicas.size(); ++share) {
    const std::string field = non_finite_field(batch, share);
    if (!field.empty()) return kField + field;
  }
  for (std::size_t share = 0; share < shares; ++share) {
    const std::string loss = ReplicaDriver(*state.replicas[share]).non_finite_loss();
    if (!loss.empty()) return kLoss + loss;
  }
  return {kNothing};
}

/// Validates a few examples together and in two halves: what differs depends on which examples
/// share a batch. What is random is left out, and what a hook declares by local_loss or
/// compares by all_gather.
std::optional<Report> check_examples(Strategy& strategy, const Hooks& hooks, TrainState& state,
                                     const DistributedSplits& data) {
  if (!data.validation || data.validation->plan().is_stream() || !strategy.pace().coordinates())
    return std::nullopt;
  const std::int64_t replicas = data.validation->plan().options().replicas;
  const std::int64_t own = std::min(data.validation->examples() / replicas, kTogether) / 2 * 2;
  if (own < 2) return std::nullopt;
  const std::int64_t all = own * replicas;
  std::deque<RandomGuard> draws;  // of all replicas, which leave their streams as they were
  for (const auto& replica : state.replicas) draws.emplace_back(replica->place().device);
  const auto precision = in_full_precision(state);
  const auto thread = one_compute_thread();
  const auto validate = [&](std::int64_t batch, std::uint64_t seed) {
    torch::manual_seed(seed);
    const auto few = data.validation->first(all, batch, same_shares(own, batch / replicas));
    return evaluate(strategy, hooks, state, few, Phase::validation);
  };
  const Report whole = validate(all, 1);
  if (ReplicaDriver(*state.replicas.front()).has_gathered()) return whole;
  const bool compares = is_comparable(state);
  const Report halves = validate(all / 2, 1);
  const StepOptions& step = ReplicaDriver(*state.replicas.front()).step_options();
  if (whole.examples != halves.examples || is_alike(whole, halves)) return whole;
  ++state.step;  // what virtual replicas draw depends on it
  const Report again = validate(all, 2);
  --state.step;
  const auto told = [](const char* what, const std::string& name) {
    return text("the ", what, " \"", name,
                "\" of an example depends on which others share its batch: of a few it is another "
                "one together than in halves");
  };
  const std::string metric =
      first_other(metric_values(whole), metric_values(again), metric_values(halves));
  if (!metric.empty() && strategy.is_chief()) {
    log_warning(told("metric", metric),
                ". It would be another one with other replicas or another batch size; sums over "
                "examples are exact");
  }
  const std::string loss = first_other(whole.losses, again.losses, halves.losses);
  if (loss.empty() || !compares) return whole;
  const std::string cause = told("loss", loss);
  if (strategy.view().replicas_in_sync() > 1 || strategy.virtual_replicas() > 0 ||
      step.accumulate > 1) {
    throw ConfigError(
        cause + ", and a batch is divided here.",
        "compare shapes that LibTorch broadcasts ([B, 1] beside [B]); gather the rows "
        "of all replicas for a loss over them with replica.all_gather(rows), or "
        "declare one that is meant over a share with replica.local_loss(loss).");
  }
  log_warning(cause,
              ". With several replicas or --accumulate it would be another one, and is refused "
              "there. Shapes that LibTorch broadcasts ([B, 1] beside [B]) do that; "
              "replica.all_gather(rows) is for a loss over the rows of all replicas, and "
              "replica.local_loss(loss) declares one that is meant over a share");
  return whole;
}

}  // namespace

std::optional<Report> look_at_examples(Strategy& strategy, const Hooks& hooks, TrainState& state,
                                       const DistributedSplits& data) {
  const std::string small = smallest_share(state, *data.train, Smallest::one);
  if (!small.empty() && strategy.is_chief()) log_warning(small);
  return check_examples(strategy, hooks, state, data);
}

std::string smallest_share(const TrainState& state, const DistributedDataset& train,
                           Smallest which) {
  const std::string norm = batch_norm_in(*state.replicas.front());
  const std::int64_t parts = ReplicaDriver(*state.replicas.front()).step_options().accumulate;
  const auto least = train.plan().smallest_part(parts);
  if (norm.empty() || !least || (which == Smallest::one && *least > 1)) return "";
  return text("the smallest ", parts > 1 ? "part of a step has " : "share of a step has ", *least,
              *least == 1 ? " example" : " examples", ", and \"", norm,
              "\" (batch norm) normalises over it",
              *least > 1 ? ""
                         : ": one example has no variance. --drop-last leaves a short last batch "
                           "out; another --batch-size divides otherwise");
}

FieldMemory::FieldMemory(const DistributedBatch& batch) : batch_(batch) {
  for (const Batch& own : batch.replicas) {
    for (const at::Tensor& field : own.fields)
      versions_.push_back(static_cast<std::uint32_t>(field._version()));
  }
}

void FieldMemory::check() const {
  std::size_t i = 0;
  std::optional<DistributedBatch> again;
  for (std::size_t share = 0; share < batch_.replicas.size(); ++share) {
    const std::vector<at::Tensor>& fields = batch_.replicas[share].fields;
    for (std::size_t f = 0; f < fields.size(); ++f, ++i) {
      const bool is_same =
          i < versions_.size() && versions_[i] == static_cast<std::uint32_t>(fields[f]._version());
      if (is_same || !batch_.source) continue;
      if (!again) again = read_again(batch_, batch_.range());
      const at::Tensor& other = again->replicas[share].fields.at(f);
      if (!other.has_storage() || other.storage().data() != fields[f].storage().data()) continue;
      throw ConfigError(
          text("train_step changed field ", f,
               " of its batch in place, and the data set returns memory of its own there: the next "
               "epoch would read the changed values."),
          text("change a copy, batch.fields[", f,
               "].clone(), or let Dataset::get return copies (index_select, not narrow)."));
    }
  }
}

NonFiniteError at_its_root(const NonFiniteError& error, Strategy& strategy, const TrainState& state,
                           const DistributedBatch& batch) {
  const std::vector<std::string> all = strategy.gather(root_here(state, batch));
  const std::string step = text("in step ", state.step + 1, " ");
  for (const char root : {kField, kLoss}) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty() || all[rank].front() != root) continue;
      const std::string who = all.size() > 1 ? text("worker ", rank, ": ") : std::string();
      const std::string what = all[rank].substr(1);
      if (root == kField) {
        return NonFiniteError(text(step, who, what, " is not finite: ", error.cause()),
                              "clean the data, or leave these examples out.");
      }
      return NonFiniteError(
          text(step, who, what, ", of a batch that is finite: ", error.cause()),
          "look for a division by zero, a logarithm of zero or an overflow in the loss; lower "
          "--learning-rate, or limit gradients with --clip-norm.");
    }
  }
  return NonFiniteError(step + error.cause(), error.fix());
}

}  // namespace troupe::detail
