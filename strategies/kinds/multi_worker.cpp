#include "troupe/strategies/kinds/multi_worker.h"

#include <ATen/Version.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/data/step_source.h"
#include "troupe/distributed/elastic/elastic_group.h"
#include "troupe/distributed/elastic/round_line.h"
#include "troupe/distributed/group/topology.h"
#include "troupe/strategies/device.h"
#include "troupe/strategies/replicas/local_replicas.h"
#include "troupe/strategies/sharing_failure.h"

namespace troupe {
namespace {

/// An overlap that is impossible is refused where it is asked for; automatic does without.
void check_overlap(const StrategyOptions& options) {
  if (options.buckets.overlap != Overlap::on) return;
  std::string lacks;
  if (options.local_replicas() > 1) lacks = "there are several replicas in a worker";
  if (detail::replica_devices(options).front().is_cuda()) lacks = "the replicas are on GPUs";
  const Communication engine = detail::choose_engine(options).engine;
  if (engine != Communication::native) lacks = text("--communication is ", name_of(engine));
  if (options.compress != Compression::none)
    lacks = text("--compress is ", name_of(options.compress));
  if (lacks.empty()) return;
  throw ConfigError("--overlap on is given, but " + lacks + ".",
                    "use --overlap auto, or one replica on the CPU and --communication native "
                    "without --compress.");
}

GroupOptions group_options(const StrategyOptions& options) {
  GroupOptions group = options.group;
  group.virtual_replicas = options.virtual_replicas;
  return group;
}

/// Null: a loss ends the group.
std::unique_ptr<Rounds> rounds_of(const StrategyOptions& options) {
  const int line = options.cluster.rounds.take();
  if (line < 0) return nullptr;
  auto rounds = std::make_unique<RoundLine>(UniqueFd(line));
  if (options.shard_optimizer) {
    throw ConfigError(
        "the group is elastic (--min-workers), and --shard-optimizer is given: with a lost worker "
        "the only copy of its part of the optimisers' state would be gone.",
        "leave --shard-optimizer out, or --min-workers.");
  }
  if (options.virtual_replicas > 0) return rounds;
  throw ConfigError(
      "the group is elastic (--min-workers), and the program was given no --virtual-replicas: its "
      "numbers would depend on who is there.",
      "add --virtual-replicas V to the program's arguments, at least the number of workers.");
}

/// Of a worker that waits to be admitted: above all, it is not the chief.
constexpr int kNoRank = -1;

/// ", examples 17, 99, 4": those of some virtual replicas in the batch's step; "" if unknown.
std::string examples_of(const DistributedBatch& batch, const TreeCut::Node& node) {
  constexpr std::size_t kMost = 64;  // in a message
  if (!batch.source) return "";
  if (batch.source->plan().is_stream()) return "";
  DistributedBatch lost = batch;
  lost.first_replica = node.begin;
  std::vector<std::string> numbers;
  for (int i = node.begin; i < node.end; ++i) {
    for (const std::int64_t example :
         example_numbers(lost, static_cast<std::size_t>(i - node.begin))) {
      if (numbers.size() == kMost) return text(", examples ", join(numbers), " ...");
      numbers.push_back(text(example));
    }
  }
  return numbers.empty() ? ", no examples" : text(", examples ", join(numbers));
}

class MultiWorker final : public Strategy {
 public:
  MultiWorker(const StrategyOptions& options, detail::EngineWrapper wrap)
      : Strategy(name_of(StrategyKind::multi_worker), view_of(options.cluster, options)),
        options_(options),
        wrap_(std::move(wrap)),
        group_(
            options.cluster, group_options(options), rounds_of(options),
            {[this] { on_round(); }, [this](Readiness& mine, int lost) { describe(mine, lost); }}),
        replicas_(view_of(group_.cluster(), options), options) {
    check_overlap(options);
    if (group_.is_elastic()) {
      // A worker that joins is alone first.
      GroupView view = view_of(group_.cluster(), options);
      if (group_.is_joining()) view.rank = kNoRank;
      move_to(view);
      replicas_.use(group_);
    }
    // Shares of the data are counted by it.
    options_.must_match["replicas (--devices)"] = text(replicas_.size());
    options_.must_match["--virtual-replicas"] = text(options.virtual_replicas);
    if (virtual_replicas() > 0) {
      // What decides how a virtual replica's numbers round: of workers that differ in it, the same
      // step has other bits on one than on another.
      const Arithmetic own = arithmetic_here();
      options_.must_match["--threads"] = text(own.compute_threads);
      options_.must_match["CPU capability"] = own.cpu_capability;
      options_.must_match["BLAS library"] = text(own.blas, " (", own.blas_version, ")");
      options_.must_match["LibTorch"] = own.libtorch;
      options_.must_match["LibTorch's build"] = sha256_hex(at::show_config()).substr(0, 12);
    }
    options_.must_match["--shard-optimizer"] = options.shard_optimizer ? "true" : "false";
    options_.must_match["--communication"] = name_of(detail::choose_engine(options).engine);
    options_.must_match["--compress"] = name_of(options.compress);
    options_.must_match["--overlap"] = name_of(options.buckets.overlap);
    options_.must_match["--bucket-mb"] =
        text(static_cast<double>(options.buckets.bytes) / (1 << 20));
  }

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state = replicas_.make(hooks, seed);
    const std::vector<NamedTensor> tensors = detail::state_of(*state.replicas.front());
    if (engine_) {
      check_same_model(detail::signature(tensors));
      engine_->restore_own_state({});  // what is there belongs to the former state's steps
    } else {
      group_.join({detail::signature(tensors), options_.must_match});
      engine_ = make_engine();
      // Workers that share this one's address. All gather the same addresses, so it is the number
      // of all workers on every worker or on none, whatever each was told about the others before.
      const auto all = gather(group_.group().local_address());
      const auto found = static_cast<int>(
          std::count(all.begin(), all.end(), all[static_cast<std::size_t>(rank())]));
      // Workers that were started by hand learn here how many are on their machine.
      const auto warning = crowding(found, workers_here(options_.cluster), replicas_.size());
      if (!warning.empty()) log_warning(warning);
      replicas_.use(*engine_, sums_during_backward(found), waits_);
      if (rank() == 0 && replicas_.overlaps()) log_info("gradients travel while backward computes");
    }
    detail::change_on_host(tensors, [this](Span<std::byte> bytes) { broadcast(bytes); });
    detail::copy_first_to_all(state);
    return state;
  }

  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    return detail::sharing_failure(*this, [&] {
      try {
        return group_.is_elastic() ? run_until_complete(step, state, batch, phase)
                                   : replicas_.run(step, state, batch, phase);
      } catch (const Error& error) {
        // A failure that all would see alike, if some were not in the midst of a sum with us.
        if (replicas_.has_abandoned_a_sum()) abort(error.what(), error.exit_code());
        throw;
      }
    });
  }

  void sum(Span<double> values) override {
    detail::check_between_steps("sum");
    const auto sums = agree([&] {
      std::vector<double> own(values.begin(), values.end());
      group_.group().all_reduce(Span<double>(own), deadline());
      const auto bytes = as_bytes(Span<const double>(own));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
    std::memcpy(values.data(), sums.data(), sums.size());
  }

  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    detail::check_between_steps("gather");
    const auto all = agree([&] {
      const Span<const char> characters(mine.data(), mine.size());
      nlohmann::json texts = nlohmann::json::array();
      for (const auto& bytes : group_.group().all_gather(as_bytes(characters), deadline())) {
        texts.push_back(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      }
      const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(texts);
      const auto bytes = as_bytes(Span<const std::uint8_t>(cbor));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
    const auto* const cbor = reinterpret_cast<const std::uint8_t*>(all.data());
    return nlohmann::json::from_cbor(cbor, cbor + all.size()).get<std::vector<std::string>>();
  }

  /// In an elastic group with nothing, if the chief was lost when some had done their part.
  [[nodiscard]] std::vector<std::vector<std::byte>> gather_to_chief(
      Span<const std::byte> mine) override {
    detail::check_between_steps("gather_to_chief");
    std::vector<std::vector<std::byte>> all;
    (void)agree([&] {
      all = group_.group().gather(mine);
      return std::vector<std::byte>();
    });
    return all;
  }

  void broadcast(Span<std::byte> bytes) override {
    detail::check_between_steps("broadcast");
    constexpr std::size_t kPiece = std::size_t{64} << 20;  // what a deadline is for
    for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
      const std::size_t size = std::min(kPiece, bytes.size() - begin);
      group_.group().broadcast(bytes.subspan(begin, size), /*root=*/0, deadline());
    }
  }

  void abort(const std::string& reason, int exit_code) noexcept override {
    group_.abort(reason, exit_code);
  }
  [[nodiscard]] Elasticity* elastic() override { return group_.is_elastic() ? &group_ : nullptr; }
  void close() override {
    if (engine_) engine_->close();
    group_.close();
  }

  [[nodiscard]] std::vector<NamedTensor> own_state() const override {
    return engine_ ? engine_->own_state() : std::vector<NamedTensor>();
  }
  void restore_own_state(const std::vector<NamedTensor>& tensors) override {
    if (engine_) engine_->restore_own_state(tensors);
  }

 private:
  [[nodiscard]] Deadline deadline() const {
    return Deadline::in(options_.group.collective_timeout);
  }
  [[nodiscard]] std::vector<std::byte> agree(
      const std::function<std::vector<std::byte>()>& attempt) {
    return waits_->during([&] { return group_.agree(attempt); });
  }
  [[nodiscard]] std::unique_ptr<detail::Engine> make_engine() {
    auto engine = detail::make_engine(options_, group_.group());
    return wrap_ ? wrap_(std::move(engine)) : std::move(engine);
  }

  // --- elastic groups

  void on_round() {
    engine_ = make_engine();
    replicas_.use(*engine_, /*during_backward=*/false, waits_);
    move_to(view_of(group_.cluster(), options_));
    has_moved_ = true;
  }

  /// The step under way, and what of it the worker `lost` of the round that has ended computed.
  void describe(Readiness& mine, int lost) const {
    mine.step = step_;
    if (lost < 0 || !batch_) return;
    const TreeCut cut = cut_of(group_.cluster(), group_options(options_));
    const TreeCut::Node node = cut.node(lost);
    mine.work = text("step ", step_ + 1, ": virtual replicas ", node.begin, " to ", node.end - 1,
                     examples_of(*batch_, node));
  }

  /// Every worker does what the group's present round gives it, until the step is complete.
  std::vector<StepResult> run_until_complete(const Step& step, TrainState& state,
                                             const DistributedBatch& batch, Phase phase) {
    step_ = state.step;
    batch_ = &batch;
    for (;;) {
      try {
        auto results = run_once(step, state, batch, phase);
        batch_ = nullptr;
        return results;
      } catch (const RepeatTransaction&) {
      } catch (const NetError& error) {
        group_.heal(error);
      }
    }
  }

  std::vector<StepResult> run_once(const Step& step, TrainState& state,
                                   const DistributedBatch& batch, Phase phase) {
    if (std::exchange(has_moved_, false)) replicas_.move_to(view());
    const detail::ReplicaRange mine = *hosted_;
    if (batch.range() == mine) return replicas_.run(step, state, batch, phase);
    if (!batch.source) {
      throw ConfigError(
          "a batch that was made by hand has not the virtual replicas of this worker.",
          "in an elastic group, give the strategy batches of a DistributedDataset.");
    }
    const DistributedBatch again = read_again(batch, mine);
    return replicas_.run(step, state, again, phase);
  }

  /// What join compares for the first state, for a later one.
  void check_same_model(const std::vector<std::string>& signature) {
    const auto all = gather(signature_hash(signature));
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (all[other] == all.front()) continue;
      detail::fail_alike(
          *this, ConfigError(text("the model of worker ", other, " differs from the chief's."),
                             "make create_model a function of the options alone."));
    }
  }

  /// The same on every worker. Within a machine moving bytes takes the cores that compute.
  [[nodiscard]] bool sums_during_backward(int found) const {
    if (virtual_replicas() > 0) return false;  // they run one after the other before that
    const Overlap wish = options_.buckets.overlap;
    return wish == Overlap::on || (wish == Overlap::automatic && found < world_size());
  }

  StrategyOptions options_;
  const detail::EngineWrapper wrap_;
  ElasticGroup group_;
  std::unique_ptr<detail::Engine> engine_;  // once joined
  detail::LocalReplicas replicas_;
  bool has_moved_ = false;                   // in another round than replicas_ knows
  std::int64_t step_ = 0;                    // training steps before the one under way
  const DistributedBatch* batch_ = nullptr;  // of the step under way; null: there is none
};

}  // namespace

std::unique_ptr<Strategy> make_multi_worker(const StrategyOptions& options,
                                            const detail::EngineWrapper& wrap) {
  return std::make_unique<MultiWorker>(options, wrap);
}

}  // namespace troupe
