// The plainest parameters that servers can hold: floats that an update lowers by learning rate
// times gradient, and a worker's copy of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/span.h"
#include "troupe/strategies/parameter_server/wire/placement.h"
#include "troupe/strategies/parameter_server/wire/server_client.h"

namespace troupe::testing {

/// Floats of one server's shards; an update subtracts learning rate times gradient.
class FloatStore final : public ParameterStore {
 public:
  FloatStore(const ServedModel& model, int server) : model_(model), values_(model.shards.size()) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Shard& shard = model_.shards[i];
      if (shard.server == server) values_[i].assign(model_.bytes_of(shard) / sizeof(float), 0.0F);
    }
  }

  void load(Span<const std::byte> state) override {
    std::size_t at = 0;
    for (auto& values : values_) {
      const std::size_t bytes = values.size() * sizeof(float);
      if (at + bytes > state.size()) throw ConfigError("the state is too short.", "");
      if (bytes > 0) std::memcpy(values.data(), state.data() + at, bytes);
      at += bytes;
    }
  }
  std::vector<std::byte> save() override {
    std::vector<std::byte> state;
    for (const auto& values : values_) {
      const auto bytes = as_bytes(Span<const float>(values));
      state.insert(state.end(), bytes.begin(), bytes.end());
    }
    return state;
  }
  [[nodiscard]] bool accepts(const Push& push) const override {
    return push.optimizer < 2 && push.learning_rates.size() == 1;
  }
  void apply(const std::vector<const Push*>& pushes, double scale) override {
    ++updates;
    if (on_apply) on_apply(pushes, scale);
    std::vector<std::vector<float>> sums(values_.size());
    for (const Push* push : pushes) {
      for (const RowBlock& block : push->gradients) add(block, sums);
    }
    const auto rate = static_cast<float>(pushes.front()->learning_rates.at(0));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t j = 0; j < sums[i].size(); ++j) {
        const float gradient = scale == 1.0 ? sums[i][j] : sums[i][j] * static_cast<float>(scale);
        values_[i][j] -= rate * gradient;
      }
    }
  }
  void read(int shard, Span<const std::int64_t> rows, Span<std::byte> out) const override {
    const auto i = static_cast<std::size_t>(shard);
    const auto all = as_bytes(Span<const float>(values_[i]));
    if (rows.empty()) {
      std::memcpy(out.data(), all.data(), all.size());
      return;
    }
    const std::size_t bytes = model_.tensor_of(model_.shards[i]).row_bytes;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(out.data() + r * bytes, all.data() + static_cast<std::size_t>(rows[r]) * bytes,
                  bytes);
    }
  }

  int updates = 0;
  std::function<void(const std::vector<const Push*>&, double scale)> on_apply;

 private:
  void add(const RowBlock& block, std::vector<std::vector<float>>& sums) const {
    const auto i = static_cast<std::size_t>(block.shard);
    const std::size_t width = model_.tensor_of(model_.shards[i]).row_bytes / sizeof(float);
    sums[i].resize(values_[i].size());
    const auto* from = reinterpret_cast<const float*>(block.values.data());
    const std::size_t rows =
        block.all_rows ? static_cast<std::size_t>(model_.shards[i].rows) : block.rows.size();
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t to = block.all_rows ? r : static_cast<std::size_t>(block.rows[r]);
      for (std::size_t c = 0; c < width; ++c) sums[i][to * width + c] += from[r * width + c];
    }
  }

  const ServedModel model_;
  std::vector<std::vector<float>> values_;  // by shard; empty: another server's
};

/// A worker's copy of all tensors, by shard.
class FloatModel {
 public:
  explicit FloatModel(const ServedModel& model) : values(model.shards.size()), model_(model) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].assign(model_.bytes_of(model_.shards[i]) / sizeof(float), -1.0F);
    }
  }
  [[nodiscard]] ServerClient::Install install() {
    return [this](const RowBlock& block) {
      ++blocks;
      const auto i = static_cast<std::size_t>(block.shard);
      const std::size_t bytes = model_.tensor_of(model_.shards[i]).row_bytes;
      auto* to = reinterpret_cast<std::byte*>(values[i].data());
      if (block.all_rows) {
        std::memcpy(to, block.values.data(), block.values.size());
        return;
      }
      for (std::size_t r = 0; r < block.rows.size(); ++r) {
        std::memcpy(to + static_cast<std::size_t>(block.rows[r]) * bytes,
                    block.values.data() + r * bytes, bytes);
      }
    };
  }
  /// The same gradient for every element of the tensors of one optimiser.
  [[nodiscard]] Push gradient(float value, int optimizer = 0) {
    Push push;
    push.optimizer = optimizer;
    push.learning_rates = {1.0};
    push.divisor = 1;  // and no weight: nothing is divided
    gradients_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (model_.tensor_of(model_.shards[i]).optimizer != optimizer) continue;
      gradients_[i].assign(values[i].size(), value);
      RowBlock block;
      block.shard = static_cast<int>(i);
      block.values = as_bytes(Span<const float>(gradients_[i]));
      push.gradients.push_back(block);
    }
    return push;
  }

  std::vector<std::vector<float>> values;
  int blocks = 0;  // installed

 private:
  const ServedModel model_;
  std::vector<std::vector<float>> gradients_;
};

/// Two tensors of optimiser 0 that are split over all servers, one of optimiser 1, one of none.
inline ServedModel small_model(int servers) {
  ServedModel model;
  model.tensors = {{"table", 0, 13, 2 * sizeof(float)},
                   {"bias", 0, 5, sizeof(float)},
                   {"critic", 1, 3, sizeof(float)},
                   {"mean", -1, 1, sizeof(float)}};
  model.shards = place(model.tensors, servers, 8);
  return model;
}

}  // namespace troupe::testing
