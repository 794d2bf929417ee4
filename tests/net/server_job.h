// A job with parameter servers as threads of one process, over real loopback sockets.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/float_store.h"
#include "tests/support/run_ranks.h"
#include "troupe/core/text.h"
#include "troupe/strategies/parameter_server/wire/server_client.h"
#include "troupe/strategies/parameter_server/wire/server_process.h"

namespace troupe::testing {

/// Servers run from the start; workers are whatever the test runs. Wait with server_errors().
class ServerJob {
 public:
  ServerJob(int workers, int servers, ServerOptions job_pace, GroupOptions limits = test_options(),
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
      cluster.servers.push_back({text("ps/", server), Endpoint{loopback_under_test(), port}});
    }
    errors_.resize(static_cast<std::size_t>(servers));
    for (int server = 0; server < servers; ++server) {
      stores.push_back(std::make_unique<FloatStore>(model, server));
      Cluster mine = cluster;
      mine.server = server;
      mine.listener =
          detail::InheritedSocket(listeners[static_cast<std::size_t>(server)].release());
      servers_.push_back(
          std::make_unique<ServerProcess>(mine, options, pace, model, *stores.back()));
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

  const ServerOptions pace;
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

  std::vector<std::unique_ptr<ServerProcess>> servers_;
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

[[nodiscard]] inline ServerOptions synchronous_pace() {
  ServerOptions pace;
  pace.staleness_bound = 0;
  return pace;
}
[[nodiscard]] inline ServerOptions bounded_pace(std::int64_t bound) {
  ServerOptions pace;
  pace.staleness_bound = bound;
  return pace;
}

}  // namespace troupe::testing
