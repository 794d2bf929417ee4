#include "strategies/multi_worker.h"

#include "core/error.h"
#include "core/text.h"
#include "strategies/local_replicas.h"
#include "strategies/shared_failure.h"
#include "strategies/tensor_bytes.h"

namespace troupe {
namespace {

class MultiWorker final : public Strategy {
 public:
  explicit MultiWorker(const StrategyOptions& options)
      : must_match_(options.must_match),
        group_(options.cluster, options.group),
        replicas_(options, &group_) {
    // Shares of the data are counted by it.
    must_match_["--replicas"] = text(replicas_.size());
  }

  [[nodiscard]] const char* name() const override { return "multi-worker"; }
  [[nodiscard]] int rank() const override { return group_.rank(); }
  [[nodiscard]] int world_size() const override { return group_.world_size(); }
  [[nodiscard]] int local_replicas() const override { return replicas_.size(); }

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state = replicas_.make(hooks, seed);
    const std::vector<NamedTensor> tensors = detail::state_of(*state.replicas.front());
    if (joined_) {
      check_same_model(detail::signature(tensors));
    } else {
      group_.join({detail::signature(tensors), must_match_});
      joined_ = true;
    }
    std::vector<std::byte> bytes = detail::pack(tensors);
    group_.broadcast(bytes, /*root=*/0, deadline());
    detail::unpack(bytes, tensors);
    detail::copy_first_to_all(state);
    return state;
  }

  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    return detail::sharing_failure(*this, [&] { return replicas_.run(step, state, batch, phase); });
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

  void synchronize_buffers(TrainState& state) override {
    detail::make_buffers_equal(state, &group_);
  }

  void abort(const std::string& reason, int exit_code) noexcept override {
    group_.abort(reason, exit_code);
  }
  void close() override { group_.close(); }

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
      throw ConfigError(text("the model of worker ", other, " differs from the chief's."),
                        "make create_model a function of the options alone.");
    }
  }

  bool joined_ = false;
  std::map<std::string, std::string> must_match_;
  WorkerGroup group_;
  detail::LocalReplicas replicas_;
};

}  // namespace

std::unique_ptr<Strategy> make_multi_worker(const StrategyOptions& options) {
  return std::make_unique<MultiWorker>(options);
}

}  // namespace troupe
