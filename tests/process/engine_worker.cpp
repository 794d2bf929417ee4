// A worker of a small training by the engine that is asked for: engine_worker ENGINE RANK SIZE PORT
// STEPS. RANK "mpi": as mpirun says. Prints "looping" after the first step, then each loss with all
// its digits, and the hash of the weights.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/process/trainings.h"
#include "tests/support/test_secret.h"
#include "tests/support/tiny_hooks.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/strategies/kinds/multi_worker.h"
#include "troupe/strategies/kinds/weight_comparison.h"

namespace {

troupe::StrategyOptions options_from(char** argv) {
  const bool by_mpi = std::strcmp(argv[2], "mpi") == 0;
  troupe::StrategyOptions options;
  for (const auto engine : {troupe::Communication::native, troupe::Communication::gloo,
                            troupe::Communication::nccl, troupe::Communication::mpi}) {
    if (std::strcmp(argv[1], name_of(engine)) == 0) options.communication = engine;
  }
  options.cluster.rank = std::atoi(by_mpi ? std::getenv("OMPI_COMM_WORLD_RANK") : argv[2]);
  options.cluster.members.clear();
  for (int rank = 0; rank < std::atoi(argv[3]); ++rank) {
    options.cluster.members.push_back({troupe::text("worker/", rank), std::nullopt});
  }
  options.cluster.members[0].address =
      troupe::Endpoint{"127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[4]))};
  options.group.secret = troupe::testing::test_secret();
  options.group.start_timeout = std::chrono::seconds(60);
  options.group.collective_timeout = std::chrono::seconds(600);
  options.group.heartbeat_interval = std::chrono::milliseconds(200);
  options.group.heartbeat_timeout = std::chrono::seconds(2);
  return options;
}

void train(const troupe::StrategyOptions& options, std::int64_t steps) {
  const troupe::testing::TinyHooks hooks(10);
  const auto strategy = troupe::make_multi_worker(options);
  auto state = strategy->create_state(hooks, 1);
  const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
  const troupe::Step step = [&](troupe::Replica& replica, const troupe::Batch& batch) {
    return hooks.train_step(replica, batch);
  };
  std::int64_t done = 0;
  for (std::int64_t epoch = 0; done < steps; ++epoch) {
    for (const auto& batch : data.train->epoch(epoch)) {
      if (done == steps) break;
      const auto results = strategy->run(step, state, batch);
      const auto losses = strategy->reduce(results);
      if (++done == 1) std::puts("looping");
      if (steps < 1000) std::printf("loss %.17g\n", losses[0].second);
      std::fflush(stdout);
    }
  }
  std::printf("hash %s\n", troupe::common_parameter_hash(*strategy, state).c_str());
  strategy->close();
}

}  // namespace

int engine_worker(int argc, char** argv) {
  if (argc != 6) return troupe::kExitUsage;
  try {
    train(options_from(argv), std::atoll(argv[5]));
  } catch (const troupe::Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return error.exit_code();
  }
  return 0;
}
