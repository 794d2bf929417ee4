// What the tests of overlapping share: a network of several buckets, and ranks that train it as
// threads over real loopback sockets.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/strategies/strategy_runs.h"

namespace troupe::testing {

struct Wish {
  Overlap overlap = Overlap::on;
  std::int64_t bytes = 256;
  int size = 2;
  std::int64_t accumulate = 1;
  std::int64_t first_bytes = 64;
};

inline ChangeOptions as(const Wish& wish) {
  return [wish](StrategyOptions& options) {
    options.buckets.overlap = wish.overlap;
    options.buckets.bytes = wish.bytes;
    options.buckets.first_bytes = wish.first_bytes;
    options.step.accumulate = wish.accumulate;
  };
}

/// Four layers, so several buckets; beside them one that the loss uses where `uses_side` says.
class Deep : public TinyHooks {
 public:
  struct Net final : torch::nn::Module {
    Net() {
      const std::array<std::int64_t, 5> widths = {1, 7, 9, 5, 1};
      for (std::size_t i = 0; i < 4; ++i) {
        layers.push_back(
            register_module(text("layer", i), torch::nn::Linear(widths[i], widths[i + 1])));
      }
      side = register_module("side", torch::nn::Linear(1, 1));
      const torch::NoGradGuard no_grad;
      double value = 0;
      for (auto& parameter : parameters()) {
        auto flat = parameter.view(-1);
        for (std::int64_t i = 0; i < flat.numel(); ++i) flat[i] = std::sin(value += 0.7) / 3;
      }
    }
    at::Tensor forward(at::Tensor x) {
      for (auto& layer : layers) x = torch::tanh(layer->forward(x));
      return x;
    }
    std::vector<torch::nn::Linear> layers;
    torch::nn::Linear side{nullptr};
  };

  Deep() : TinyHooks(10) {}
  [[nodiscard]] Trainable create_model() const override {
    const auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
                                                     torch::optim::SGDOptions(0.05).momentum(0.9))};
  }

 protected:
  [[nodiscard]] virtual bool uses_side(const Replica&) const { return false; }
  [[nodiscard]] at::Tensor output(Replica& replica, const at::Tensor& x) const override {
    auto& net = replica.model<Net>();
    const auto y = net.forward(x);
    return uses_side(replica) ? y + net.side(x) : y;
  }
};

/// What every rank ends with.
inline std::vector<Outcome> train_deep(const Wish& wish, const Hooks& hooks = Deep(),
                                       std::int64_t epochs = 4) {
  return on_workers(
      wish.size, [&](Strategy& strategy) { return train_with(strategy, hooks, epochs); }, as(wish));
}

inline void check_equal(const Wish& wish, const Outcome& expected, const Hooks& hooks = Deep(),
                        std::int64_t epochs = 4) {
  CAPTURE(static_cast<int>(wish.overlap));
  CAPTURE(wish.bytes);
  CAPTURE(wish.size);
  for (const Outcome& outcome : train_deep(wish, hooks, epochs)) {
    CHECK(outcome.hash == expected.hash);
    CHECK(outcome.losses == expected.losses);
  }
}

}  // namespace troupe::testing
