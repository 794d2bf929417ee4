#include "strategies/multi_worker.h"

#include <torch/types.h>

#include <cstring>

#include "core/check.h"
#include "strategies/device.h"
#include "strategies/gradient_buckets.h"
#include "strategies/replica_runner.h"
#include "strategies/shared_failure.h"
#include "strategies/tensor_bytes.h"

namespace troupe {
namespace {

class MultiWorker final : public Strategy {
 public:
  explicit MultiWorker(const StrategyOptions& options)
      : device_(detail::parse_device(options.device)),
        must_match_(options.must_match),
        group_(options.cluster, options.group),
        gradients_(group_) {}

  [[nodiscard]] const char* name() const override { return "multi-worker"; }
  [[nodiscard]] int rank() const override { return group_.rank(); }
  [[nodiscard]] int world_size() const override { return group_.world_size(); }
  [[nodiscard]] int local_replicas() const override { return 1; }

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state;
    state.replicas.push_back(
        detail::make_replica(hooks, {rank(), world_size(), device_}, seed, gradients_));
    const std::vector<NamedTensor> tensors = state_of(*state.replicas.front());
    if (joined_) {
      check_same_model(detail::signature(tensors));
    } else {
      group_.join({detail::signature(tensors), must_match_});
      joined_ = true;
    }
    std::vector<std::byte> bytes = detail::pack(tensors);
    group_.broadcast(bytes, /*root=*/0, deadline());
    detail::unpack(bytes, tensors);
    return state;
  }

  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    return detail::sharing_failure(*this, [&]() -> std::vector<StepResult> {
      return {detail::run_on_replica(step, *state.replicas.front(), batch.replicas.front(), phase)};
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

  void synchronize_buffers(TrainState& state) override;

  void abort(const std::string& reason, int exit_code) noexcept override {
    group_.abort(reason, exit_code);
  }
  void close() override { group_.close(); }

 private:
  [[nodiscard]] Deadline deadline() const {
    return Deadline::in(group_.options().collective_timeout);
  }

  /// Parameters, then buffers.
  [[nodiscard]] static std::vector<NamedTensor> state_of(const Replica& replica) {
    std::vector<NamedTensor> all = replica.parameters();
    const std::vector<NamedTensor> buffers = replica.buffers();
    all.insert(all.end(), buffers.begin(), buffers.end());
    return all;
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

  c10::Device device_;
  bool joined_ = false;
  std::map<std::string, std::string> must_match_;
  WorkerGroup group_;
  GradientBuckets gradients_;
};

void MultiWorker::synchronize_buffers(TrainState& state) {
  const torch::NoGradGuard no_grad;
  std::vector<NamedTensor> chiefs;
  for (const auto& [name, buffer] : state.replicas.front()->buffers()) {
    if (!buffer.is_floating_point()) {
      chiefs.emplace_back(name, buffer);
      continue;
    }
    at::Tensor total = buffer.to(torch::kCPU, torch::kFloat64).contiguous().clone();
    group_.all_reduce(
        Span<double>(total.data_ptr<double>(), static_cast<std::size_t>(total.numel())),
        deadline());
    at::Tensor target = buffer;
    target.copy_(total / world_size());
  }
  std::vector<std::byte> bytes = detail::pack(chiefs);
  if (bytes.empty()) return;
  group_.broadcast(bytes, /*root=*/0, deadline());
  detail::unpack(bytes, chiefs);
}

}  // namespace

std::unique_ptr<Strategy> make_multi_worker(const StrategyOptions& options) {
  return std::make_unique<MultiWorker>(options);
}

}  // namespace troupe
