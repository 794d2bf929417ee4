// Whole jobs with parameter servers: chief, workers and servers as threads, over real loopback
// sockets.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/strategies/server_hooks.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/parameter_server/parameter_server.h"

namespace troupe::testing {

struct Job {
  int workers = 1;
  int servers = 1;
  ServerOptions options;
  int replicas = 1;
  StepOptions step;
};

/// Synchronous, and with shards so small that every tensor is divided.
inline Job synchronous(int workers, int servers) {
  Job job;
  job.workers = workers;
  job.servers = servers;
  job.options.staleness_bound = 0;
  job.options.min_shard_bytes = 8;
  return job;
}
inline Job asynchronous(int workers, int servers) {
  Job job = synchronous(workers, servers);
  job.options.staleness_bound.reset();
  return job;
}

/// What the chief of a job ends with.
struct JobEnd : TrainingEnd {
  std::int64_t steps_of_all = 0;
  nlohmann::json servers;
};

/// What its processes have in common, on ports that nobody listens on.
inline StrategyOptions options_of(const Job& job) {
  StrategyOptions common;
  common.kind = StrategyKind::parameter_server;
  common.cluster.members.clear();
  for (int i = 0; i < job.workers; ++i) {
    common.cluster.members.push_back({text("worker/", i), Endpoint{"127.0.0.1", free_port()}});
  }
  for (int i = 0; i < job.servers; ++i) {
    common.cluster.servers.push_back({text("ps/", i), Endpoint{"127.0.0.1", free_port()}});
  }
  common.group = test_options();
  common.servers = job.options;
  common.replicas = job.replicas;
  common.step = job.step;
  return common;
}

/// One of its processes: workers, then servers.
inline void be_process(StrategyOptions options, int process, const Hooks& hooks,
                       const WorkerBody& body) {
  const int workers = options.cluster.world_size();
  if (process >= workers) {
    options.cluster.server = process - workers;
    return serve_parameters(hooks, options);
  }
  options.cluster.rank = process;
  body(process, *make_parameter_server(options));
}

/// Errors by process: workers, then servers.
inline RankErrors try_job(const Job& job, const Hooks& hooks, const WorkerBody& body) {
  const StrategyOptions common = options_of(job);
  return try_ranks(job.workers + job.servers,
                   [&](int process) { be_process(common, process, hooks, body); });
}

inline void run_job(const Job& job, const Hooks& hooks, const WorkerBody& body) {
  throw_first(try_job(job, hooks, body));
}

/// A whole training, as template/main.cpp does it.
inline JobEnd train_job(const Job& job, const Hooks& hooks, const TrainOptions& options,
                        const std::function<Callbacks(int rank)>& callbacks = nullptr) {
  JobEnd end;
  std::vector<std::int64_t> steps(static_cast<std::size_t>(job.workers), 0);
  run_job(job, hooks, [&](int rank, Strategy& strategy) {
    auto state = strategy.create_state(hooks, options.seed);
    const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
    const History history =
        train(strategy, hooks, state, data, options, callbacks ? callbacks(rank) : Callbacks());
    const std::optional<Report> report = test(strategy, hooks, state, data);
    steps[static_cast<std::size_t>(rank)] = history.steps;
    if (rank == 0) {
      end.hash = common_parameter_hash(strategy, state);
      end.step = state.step;
      end.test = report.value();
      end.history = history;
      end.servers = nlohmann::json::parse(strategy.pace().facts());
    }
    strategy.close();
  });
  for (const std::int64_t own : steps) end.steps_of_all += own;
  return end;
}

}  // namespace troupe::testing
