#include "strategies/multi_worker.h"

#include <ATen/Version.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/sha256.h"
#include "core/text.h"
#include "distributed/worker_group.h"
#include "strategies/device.h"
#include "strategies/replicas/local_replicas.h"

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

/// What decides how a virtual replica's numbers round: of workers that differ in it, the same step
/// has other bits on one than on another.
void add_arithmetic(std::map<std::string, std::string>& must_match) {
  const Arithmetic own = arithmetic_here();
  must_match["--threads"] = text(own.compute_threads);
  must_match["CPU capability"] = own.cpu_capability;
  must_match["BLAS library"] = text(own.blas, " (", own.blas_version, ")");
  must_match["LibTorch"] = own.libtorch;
  must_match["LibTorch's build"] = sha256_hex(at::show_config()).substr(0, 12);
}

class MultiWorker final : public Strategy {
 public:
  MultiWorker(const StrategyOptions& options, detail::EngineWrapper wrap)
      : Strategy(detail::standing_of(name_of(StrategyKind::multi_worker), options)),
        options_(options),
        wrap_(std::move(wrap)),
        group_(options.cluster, group_options(options)),
        replicas_(options) {
    check_overlap(options);
    // Shares of the data are counted by it.
    options_.must_match["--replicas"] = text(replicas_.size());
    options_.must_match["--virtual-replicas"] = text(options.virtual_replicas);
    if (virtual_replicas() > 0) add_arithmetic(options_.must_match);
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
      engine_ = detail::make_engine(options_, group_);
      if (wrap_) engine_ = wrap_(std::move(engine_));
      const int found = count_workers_here();
      // Workers that were started by hand learn here how many are on their machine.
      const auto warning = crowding(found, workers_here(options_.cluster), replicas_.size());
      if (!warning.empty()) log_warning(warning);
      replicas_.use(*engine_, sums_during_backward(found));
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
        return replicas_.run(step, state, batch, phase);
      } catch (const Error& error) {
        // A failure that all would see alike, if some were not in the midst of a sum with us.
        if (replicas_.has_abandoned_a_sum()) group_.abort(error.what(), error.exit_code());
        throw;
      }
    });
  }

  void sum(Span<double> values) override { group_.all_reduce(values, deadline()); }

  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    std::vector<std::string> all;
    const Span<const char> characters(mine.data(), mine.size());
    for (const auto& bytes : group_.all_gather(as_bytes(characters), deadline())) {
      all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return all;
  }

  [[nodiscard]] std::vector<std::vector<std::byte>> gather_to_chief(
      Span<const std::byte> mine) override {
    return group_.gather(mine);
  }

  void broadcast(Span<std::byte> bytes) override {
    constexpr std::size_t kPiece = std::size_t{64} << 20;  // what a deadline is for
    for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
      const std::size_t size = std::min(kPiece, bytes.size() - begin);
      group_.broadcast(bytes.subspan(begin, size), /*root=*/0, deadline());
    }
  }

  void synchronize_buffers(TrainState& state) override {
    if (virtual_replicas() == 0) detail::make_buffers_equal(state, &group_);
  }

  void abort(const std::string& reason, int exit_code) noexcept override {
    group_.abort(reason, exit_code);
  }
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
    return Deadline::in(group_.options().collective_timeout);
  }

  /// What join compares for the first state, for a later one.
  void check_same_model(const std::vector<std::string>& signature) {
    std::string mine;
    for (const std::string& line : signature) mine += line + "\n";
    const auto all = gather(mine);
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (all[other] == all.front()) continue;
      detail::fail_alike(
          *this, ConfigError(text("the model of worker ", other, " differs from the chief's."),
                             "make create_model a function of the options alone."));
    }
  }

  /// Workers that share this one's address. All gather the same addresses, so it is the number of
  /// all workers on every worker or on none, whatever each was told about the others before.
  [[nodiscard]] int count_workers_here() {
    const auto all = gather(group_.local_address());
    const std::string& mine = all[static_cast<std::size_t>(rank())];
    return static_cast<int>(std::count(all.begin(), all.end(), mine));
  }

  /// The same on every worker. Within a machine moving bytes takes the cores that compute.
  [[nodiscard]] bool sums_during_backward(int found) const {
    if (virtual_replicas() > 0) return false;  // they run one after the other before that
    const Overlap wish = options_.buckets.overlap;
    return wish == Overlap::on || (wish == Overlap::automatic && found < world_size());
  }

  StrategyOptions options_;
  const detail::EngineWrapper wrap_;
  WorkerGroup group_;
  std::unique_ptr<detail::Engine> engine_;  // once joined
  detail::LocalReplicas replicas_;
};

}  // namespace

std::unique_ptr<Strategy> make_multi_worker(const StrategyOptions& options,
                                            const detail::EngineWrapper& wrap) {
  return std::make_unique<MultiWorker>(options, wrap);
}

}  // namespace troupe
