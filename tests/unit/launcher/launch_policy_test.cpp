#include "troupe/launcher/run/launch_policy.h"

#include <csignal>

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/launcher/run/launch_environment.h"
#include "troupe/launcher/run/launch_report.h"

namespace launch_policy_test {

using troupe::ChildEnd;
using troupe::Consequence;
using troupe::LaunchPolicy;
using troupe::LaunchRole;

namespace {

constexpr ChildEnd kWell{0, 0};
constexpr ChildEnd kBug{7, 0};
constexpr ChildEnd kLostPeer{troupe::kExitPeerLost, 0};
constexpr ChildEnd kKilled{128 + SIGKILL, SIGKILL};

constexpr auto kWorker = LaunchRole::worker;
constexpr auto kServer = LaunchRole::server;
constexpr auto kEvaluator = LaunchRole::evaluator;

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("launch policy: without servers every worker is needed") {
    for (const int rank : {0, 1}) {
      LaunchPolicy policy({2, 0, 0});
      CHECK(policy.on_end(kWorker, rank, kWell) == Consequence::none);
      CHECK(policy.on_end(kWorker, rank, kBug) == Consequence::stop);
      CHECK(policy.on_end(kWorker, rank, kKilled) == Consequence::stop);
      CHECK(policy.on_end(kWorker, rank, kLostPeer) == Consequence::suspect);
    }
  }

  TEST_CASE("launch policy: with servers, a worker that was told to stop is lost, and no bug") {
    for (const int code : {129, 130, 143}) {
      LaunchPolicy policy({2, 1, 0});
      CHECK(policy.on_end(kWorker, 1, ChildEnd{code, 0}) == Consequence::lost);
      CHECK(policy.on_end(kWorker, 0, ChildEnd{code, 0}) == Consequence::stop);
    }
  }

  TEST_CASE("launch policy: with servers, chief and servers are needed, other workers are not") {
    LaunchPolicy policy({3, 2, 0});
    CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::lost);
    CHECK(policy.on_end(kWorker, 2, kLostPeer) == Consequence::lost);
    CHECK(policy.on_end(kWorker, 1, kBug) == Consequence::stop);
    CHECK(policy.on_end(kWorker, 0, kKilled) == Consequence::await_echo);
    CHECK(policy.on_end(kWorker, 0, kLostPeer) == Consequence::suspect);
    CHECK(policy.on_end(kWorker, 0, kBug) == Consequence::stop);
    for (const int index : {0, 1}) {
      CHECK(policy.on_end(kServer, index, kWell) == Consequence::none);
      CHECK(policy.on_end(kServer, index, kKilled) == Consequence::await_echo);
      CHECK(policy.on_end(kServer, index, kLostPeer) == Consequence::suspect);
      CHECK(policy.on_end(kServer, index, kBug) == Consequence::stop);
    }
  }

  TEST_CASE("launch policy: the evaluator's end stops nobody") {
    for (const int servers : {0, 2}) {
      LaunchPolicy policy({2, servers, 0});
      for (const ChildEnd& end : {kBug, kKilled, kLostPeer})
        CHECK(policy.on_end(kEvaluator, 0, end) == Consequence::bystander);
      CHECK(policy.on_end(kEvaluator, 0, kWell) == Consequence::none);
    }
  }

  TEST_CASE("launch policy: a lost worker is started again so often, each for itself") {
    LaunchPolicy policy({3, 1, 2});
    CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::start_again);
    CHECK(policy.on_end(kWorker, 1, kLostPeer) == Consequence::start_again);
    CHECK(policy.restart_text(1) == "2 of 2");
    CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::lost);
    CHECK(policy.on_end(kWorker, 2, kKilled) == Consequence::start_again);
    CHECK(policy.on_end(kWorker, 2, kBug) == Consequence::stop);
    CHECK(policy.on_end(kWorker, 0, kKilled) == Consequence::await_echo);
  }

  TEST_CASE("launch policy: of an elastic group any worker may be lost, once one holds the state") {
    troupe::RestartPolicy restarts(9);
    LaunchPolicy policy({3, 0, 0, &restarts});
    CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::stop);
    CHECK(policy.on_end(kWorker, 1, kLostPeer) == Consequence::suspect);
    policy.on_state();
    for (const int index : {0, 1, 2}) {
      CHECK(policy.on_end(kWorker, index, kKilled) == Consequence::start_again);
      CHECK(policy.on_end(kWorker, index, kLostPeer) == Consequence::start_again);
      CHECK(policy.on_end(kWorker, index, kBug) == Consequence::stop);
      for (const int told : {129, 130, 143})
        CHECK(policy.on_end(kWorker, index, ChildEnd{told, 0}) == Consequence::stop);
    }
    CHECK(policy.order_of_cause(kWorker, 0, kBug) < policy.order_of_cause(kWorker, 1, kKilled));
    CHECK(policy.on_end(kWorker, 1, kWell) == Consequence::none);
    CHECK(policy.training_is_done());
    CHECK(policy.on_end(kWorker, 0, kKilled) == Consequence::lost);  // the work is saved
  }

  TEST_CASE("launch policy: an elastic run has so many restarts, of workers and of all") {
    using std::chrono::milliseconds;
    troupe::RestartPolicy restarts(3);
    {
      LaunchPolicy policy({3, 0, 0, &restarts});
      policy.on_state();
      CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::start_again);
      CHECK(policy.restart_text(1) == "1 of 3");
      policy.on_start_again();
      CHECK(restarts.used() == 1);
      // Two that are expected count, and then the whole group starts again without them.
      CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::start_again);
      CHECK(policy.on_end(kWorker, 0, kKilled) == Consequence::start_again);
      CHECK(policy.restart_text(0) == "3 of 3");
      CHECK(policy.on_end(kWorker, 2, kKilled) == Consequence::lost);
    }
    CHECK(restarts.after({137, true}, milliseconds(0)).has_value());
    CHECK(restarts.used() == 2);
    LaunchPolicy policy({3, 0, 0, &restarts});
    policy.on_state();
    CHECK(policy.on_end(kWorker, 2, kKilled) == Consequence::start_again);
    policy.on_start_again();
    CHECK_FALSE(restarts.after({137, true}, milliseconds(0)).has_value());
  }

  TEST_CASE("launch policy: a worker whose node comes again takes a restart, if one is left") {
    troupe::RestartPolicy restarts(2);
    LaunchPolicy policy({3, 0, 0, &restarts});
    policy.on_state();
    CHECK(policy.takes_back());
    policy.on_start_again();
    CHECK(restarts.used() == 1);
    CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::start_again);
    CHECK_FALSE(policy.takes_back());
    CHECK_FALSE(LaunchPolicy({3, 0, 0}).takes_back());
  }

  TEST_CASE("launch policy: once the chief ended well, nobody is started again") {
    LaunchPolicy policy({2, 1, 9});
    CHECK(policy.on_end(kWorker, 1, kWell) == Consequence::none);
    CHECK_FALSE(policy.training_is_done());
    CHECK(policy.on_end(kWorker, 0, kWell) == Consequence::none);
    CHECK(policy.training_is_done());
    CHECK(policy.on_end(kWorker, 1, kKilled) == Consequence::lost);
  }

  TEST_CASE("launch policy: after the chief's end, servers and workers are not without limit") {
    LaunchPolicy policy({2, 2, 0});
    CHECK(policy.overdue(0, 2) == std::nullopt);
    CHECK(policy.overdue(1, 0) == std::nullopt);
    (void)policy.on_end(kWorker, 0, kWell);
    CHECK(policy.overdue(1, 2) == std::nullopt);
    CHECK(policy.overdue(0, 1) == kServer);
    CHECK(policy.overdue(1, 0) == kWorker);
    CHECK(policy.overdue(0, 0) == std::nullopt);
    LaunchPolicy plain({2, 0, 0});
    (void)plain.on_end(kWorker, 0, kWell);
    CHECK(plain.overdue(1, 0) == std::nullopt);
  }

  TEST_CASE("launch policy: of ends seen together, the likeliest cause comes first") {
    const LaunchPolicy policy({3, 2, 0});
    const auto order = [&](LaunchRole role, int index, const ChildEnd& end) {
      return policy.order_of_cause(role, index, end);
    };
    CHECK(order(kServer, 0, kKilled) < order(kWorker, 1, kBug));
    CHECK(order(kWorker, 1, kBug) < order(kServer, 1, kLostPeer));
    CHECK(order(kServer, 1, kLostPeer) < order(kWorker, 2, kKilled));
    CHECK(order(kWorker, 2, kKilled) < order(kEvaluator, 0, kBug));
    const LaunchPolicy plain({3, 0, 0});
    CHECK(plain.order_of_cause(kWorker, 2, kKilled) < plain.order_of_cause(kWorker, 1, kBug));
  }

  TEST_CASE("launch report: what ended, how and when") {
    troupe::EndedProcess process{"ps/0", kKilled, troupe::Seconds(3.21)};
    CHECK(troupe::end_text(process) == "ps/0 was killed by signal 9 (Killed) after 3.2 s");
    process.last_lines = {"one", "two"};
    process.log_path = "logs/ps-0.log";
    CHECK(troupe::culprit_text(process) ==
          "ps/0 was killed by signal 9 (Killed) after 3.2 s (out of memory? `dmesg` knows); its "
          "last lines:\n  one\n  two\nAll of it is in logs/ps-0.log.");
    CHECK(troupe::group_text(1, 0, 0) == "1 worker");
    CHECK(troupe::group_text(3, 1, 0) == "3 workers and 1 server");
    CHECK(troupe::group_text(3, 2, 1) == "3 workers, 2 servers and an evaluator");
  }

  TEST_CASE("launch environment: servers have addresses, one thread, and a core each") {
    troupe::LaunchPlan plan{{7, 0, 3, 0, "127.0.0.1", 4000}, 3, 8, 0};
    plan.server_ports = {5000, 5001};
    const troupe::Environment shared = troupe::launch_environment({}, plan).variables;
    CHECK(shared.at("TROUPE_SERVERS") == "127.0.0.1:5000,127.0.0.1:5001");
    CHECK(shared.count("TROUPE_CHIEF_ADDRESS") == 0);
    CHECK(shared.at("OMP_NUM_THREADS") == "2");  // 8 cores, 2 for the servers, 6 for 3 workers
    const troupe::Environment worker = troupe::environment_of({kWorker, 2, -1, 9}, shared);
    CHECK(worker.at("TROUPE_RANK") == "2");
    CHECK(worker.count("TROUPE_LISTEN_FD") == 0);
    CHECK(worker.count("TROUPE_TASK") == 0);
    CHECK(worker.at("TROUPE_PROGRESS_FD") == "9");
    CHECK(worker.count("TROUPE_ROUNDS_FD") == 0);
    CHECK(worker.count("TROUPE_JOINS") == 0);
    const troupe::Environment joining =
        troupe::environment_of({kWorker, 1, 7, -1, 8, /*joins=*/true}, shared);
    CHECK(joining.at("TROUPE_LISTEN_FD") == "7");
    CHECK(joining.at("TROUPE_ROUNDS_FD") == "8");
    CHECK(joining.at("TROUPE_JOINS") == "1");
    CHECK(joining.count("TROUPE_PROGRESS_FD") == 0);
    const troupe::Environment server =
        troupe::environment_of({kServer, 1, 9, -1, -1, false, /*losses_fd=*/5}, shared);
    CHECK(server.at("TROUPE_LOSSES_FD") == "5");
    CHECK(worker.count("TROUPE_LOSSES_FD") == 0);
    CHECK(server.at("TROUPE_TASK") == "ps:1");
    CHECK(server.at("TROUPE_LISTEN_FD") == "9");
    CHECK(server.at("TROUPE_WORLD_SIZE") == "3");
    CHECK(server.at("OMP_NUM_THREADS") == "1");
    CHECK(server.count("TROUPE_RANK") == 0);
    const troupe::Environment evaluator = troupe::environment_of({kEvaluator, 0}, shared);
    CHECK(evaluator.count("TROUPE_SERVERS") == 0);
    plan.usable_cores = 2;  // fewer than servers and workers: one each
    CHECK(troupe::launch_environment({}, plan).variables.at("OMP_NUM_THREADS") == "1");
    CHECK(troupe::launch_environment({{"TROUPE_SERVERS", "x:1"}},
                                     {{7, 0, 2, 0, "127.0.0.1", 4000}, 2, 2, 0})
              .variables.count("TROUPE_SERVERS") == 0);
    for (const char* name :
         {"TROUPE_PROGRESS_FD", "TROUPE_ROUNDS_FD", "TROUPE_JOINS", "TROUPE_LOSSES_FD"})
      CHECK(troupe::launch_environment({{name, "5"}}, {{7, 0, 2, 0, "127.0.0.1", 4000}, 2, 2, 0})
                .variables.count(name) == 0);
  }
}

}  // namespace launch_policy_test
