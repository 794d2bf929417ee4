// A job with parameter servers as threads of one process, over real loopback sockets, with a store
// of plain floats and gradient descent.
#pragma once

#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/text.h"
#include "distributed/servers/parameter_server.h"
#include "distributed/servers/server_client.h"
#include "tests/support/run_ranks.h"

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
    push.examples = 1;
    push.global_examples = 1;
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

/// Servers run from the start; workers are whatever the test runs. Wait with server_errors().
class ServerJob {
 public:
  ServerJob(int workers, int servers, Pace job_pace, GroupOptions limits = test_options(),
            std::function<JoinTerms(int server)> terms = nullptr)
      : pace(job_pace), options(limits), model(small_model(servers)) {
    cluster.members.clear();
    for (int rank = 0; rank < workers; ++rank) {
      cluster.members.push_back({text("worker/", rank), std::nullopt});
    }
    cluster.origin = "test";
    std::vector<LoopbackListener> listeners(static_cast<std::size_t>(servers));
    for (int server = 0; server < servers; ++server) {
      const auto port = listeners[static_cast<std::size_t>(server)].port();
      cluster.servers.push_back({text("ps/", server), Endpoint{"127.0.0.1", port}});
    }
    errors_.resize(static_cast<std::size_t>(servers));
    for (int server = 0; server < servers; ++server) {
      stores.push_back(std::make_unique<FloatStore>(model, server));
      Cluster mine = cluster;
      mine.server = server;
      mine.listen_fd = listeners[static_cast<std::size_t>(server)].release();
      servers_.push_back(
          std::make_unique<ParameterServer>(mine, options, pace, model, *stores.back()));
    }
    for (int server = 0; server < servers; ++server) {
      threads_.emplace_back([this, server, terms] {
        try {
          servers_[static_cast<std::size_t>(server)]->run(terms ? terms(server) : JoinTerms{});
        } catch (...) {
          errors_[static_cast<std::size_t>(server)] = std::current_exception();
        }
        servers_[static_cast<std::size_t>(server)].reset();  // closes its sockets, as an exit would
      });
    }
  }
  ~ServerJob() { join(); }

  [[nodiscard]] Cluster cluster_of(int rank) const {
    Cluster mine = cluster;
    mine.rank = rank;
    return mine;
  }
  [[nodiscard]] std::unique_ptr<ServerClient> client(int rank) const {
    return std::make_unique<ServerClient>(cluster_of(rank), options, pace, model);
  }
  /// Joins and starts: the chief with all values 0.
  [[nodiscard]] std::unique_ptr<ServerClient> started(int rank, std::int64_t last_step,
                                                      std::int64_t step = 0) const {
    auto mine = client(rank);
    mine->join({});
    if (rank == 0) {
      mine->start(zero_states(), step, last_step);
    } else {
      static_cast<void>(mine->wait_for_start());
    }
    return mine;
  }
  [[nodiscard]] std::vector<std::vector<std::byte>> zero_states() const {
    std::vector<std::vector<std::byte>> states;
    for (std::size_t server = 0; server < cluster.servers.size(); ++server) {
      states.push_back(FloatStore(model, static_cast<int>(server)).save());
    }
    return states;
  }
  /// Waits for all servers to end; what each threw.
  [[nodiscard]] const RankErrors& server_errors() {
    join();
    return errors_;
  }

  const Pace pace;
  const GroupOptions options;
  const ServedModel model;
  Cluster cluster;
  std::vector<std::unique_ptr<FloatStore>> stores;

 private:
  void join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  std::vector<std::unique_ptr<ParameterServer>> servers_;
  RankErrors errors_;
  std::vector<std::thread> threads_;
};

/// Takes steps until training is over; `step` makes the pushes.
using Step = std::function<void(ServerClient&, FloatModel&, std::int64_t number)>;
inline std::vector<std::int64_t> train(ServerClient& client, FloatModel& model, const Step& step) {
  std::vector<std::int64_t> numbers;
  for (;;) {
    const auto begun = client.begin(model.install());
    if (!begun.step) return numbers;
    numbers.push_back(*begun.step);
    step(client, model, *begun.step);
    client.end();
  }
}

inline void push_one(ServerClient& client, FloatModel& model, std::int64_t) {
  client.push(model.gradient(1.0F), model.install());
}

[[nodiscard]] inline Pace synchronous_pace(int backup_workers = 0) {
  Pace pace;
  pace.staleness_bound = 0;
  pace.backup_workers = backup_workers;
  return pace;
}
[[nodiscard]] inline Pace bounded_pace(std::int64_t bound) {
  Pace pace;
  pace.staleness_bound = bound;
  return pace;
}

}  // namespace troupe::testing
