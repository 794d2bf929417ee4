// PacedEngine: an engine on a link of so many bytes per second. It takes the time that the link
// would: what the real engine was faster, it sleeps.
//
//   const auto strategy = make_multi_worker(options, paced(1.2e9));
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/strategies/engines/engine.h"

namespace troupe::bench {

class PacedEngine final : public detail::Engine {
 public:
  /// A sum of n bytes takes n / `bytes_per_second` at least.
  PacedEngine(std::unique_ptr<detail::Engine> engine, double bytes_per_second)
      : engine_(std::move(engine)), bytes_per_second_(bytes_per_second) {}

  [[nodiscard]] bool is_exact() const override { return engine_->is_exact(); }
  [[nodiscard]] bool can_overlap() const override { return engine_->can_overlap(); }

  void all_reduce(const at::Tensor& flat, const detail::Summand& summand) override {
    const std::chrono::duration<double> taken(static_cast<double>(flat.nbytes()) /
                                              bytes_per_second_);
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(taken);
    engine_->all_reduce(flat, summand);
    std::this_thread::sleep_until(until);
  }

  [[nodiscard]] at::Tensor make_buffer(std::int64_t count,
                                       const at::TensorOptions& options) override {
    return engine_->make_buffer(count, options);
  }
  [[nodiscard]] std::vector<NamedTensor> own_state() const override { return engine_->own_state(); }
  void restore_own_state(const std::vector<NamedTensor>& tensors) override {
    engine_->restore_own_state(tensors);
  }
  void close() override { engine_->close(); }

 private:
  std::unique_ptr<detail::Engine> engine_;
  const double bytes_per_second_;
};

[[nodiscard]] inline detail::EngineWrapper paced(double bytes_per_second) {
  return [bytes_per_second](std::unique_ptr<detail::Engine> engine) {
    return std::make_unique<PacedEngine>(std::move(engine), bytes_per_second);
  };
}

}  // namespace troupe::bench
