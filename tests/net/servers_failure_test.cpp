#include <sys/types.h>

#include <boost/asio/post.hpp>
#include <csignal>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/net/server_job.h"
#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/net/connection.h"
#include "troupe/distributed/net/network_thread.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace servers_failure_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

FrameHeader header_of(FrameType type, int rank, std::uint64_t sequence = 0) {
  FrameHeader header;
  header.type = type;
  header.rank = static_cast<std::uint32_t>(rank);
  header.sequence = sequence;
  return header;
}

// A process that says it is ps/1 of a job: lets everybody in and hangs up at the first `begin`.
class ServerThatDies {
 public:
  explicit ServerThatDies(int listen_fd) : acceptor_(network_.context(), listen_fd) {
    network_.start([](const std::string&) {});
    boost::asio::post(network_.context(), [this] {
      acceptor_.start({test_secret(), false, "ps/1", 0}, [this](Introduction first) {
        const auto connection = Connection::make(std::move(first.from));
        connection->set_limits({1 << 20, 1 << 20});
        connections_.push_back(connection);
        connection->start(
            [this, connection](const FrameHeader& header, const std::vector<std::byte>&) {
              if (header.type == FrameType::enter) {
                connection->send(header_of(FrameType::entered, 0), "");
                connection->send(header_of(FrameType::launched, 0), "");
              } else if (header.type == FrameType::begin) {
                for (const auto& each : connections_) each->close();
              }
            },
            [](const std::string&, FrameFault) {});
        connection->send(header_of(FrameType::entry, 0), "");
      });
    });
  }
  ~ServerThatDies() { network_.stop(); }

 private:
  NetworkThread network_;
  Acceptor acceptor_;
  std::vector<std::shared_ptr<Connection>> connections_;
};

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("servers: a worker that is lost is dropped, and may join again") {
    for (const ServerOptions& pace : {ServerOptions{}, bounded_pace(1), synchronous_pace()}) {
      CAPTURE(pace.staleness_bound.value_or(-1));
      CapturedLog log;
      ServerJob job(3, 2, pace);
      std::promise<void> rejoined;
      auto is_back = rejoined.get_future().share();
      PaceStatistics statistics;
      std::set<std::int64_t> numbers;
      run_ranks(3, [&](int rank) {
        FloatModel model(job.model);
        if (rank == 2) {
          {
            const auto client = job.started(2, 300);
            for (int step = 0; step < 3; ++step) {
              if (!client->begin(model.install()).step) throw std::runtime_error("too early");
              push_one(*client, model, 0);
              client->end();
            }
            // Lost here, in asynchronous training with a step that it has been granted.
          }
          FloatModel fresh(job.model);
          const auto again = job.client(2);
          try {
            again->join({});
            CHECK(again->wait_for_start() >= 0);
          } catch (...) {
            rejoined.set_value();  // the others must not wait for ever
            throw;
          }
          rejoined.set_value();
          CHECK_FALSE(train(*again, fresh, push_one).empty());
          return again->close();
        }
        const auto client = job.started(rank, 300);
        int steps = 0;
        const auto mine =
            train(*client, model, [&](ServerClient& c, FloatModel& m, std::int64_t n) {
              if (++steps == 10) is_back.wait();  // or all would be over
              push_one(c, m, n);
            });
        if (rank == 0) statistics = client->finish("done");
        client->close();
      });
      for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
      CHECK(log.has("worker/2 is lost at step"));
      CHECK(log.has("training continues without it"));
      CHECK(statistics.updates == 300);
      REQUIRE(statistics.lost.size() == 1);
      CHECK(has(statistics.lost[0], "worker/2 at step "));
      REQUIRE(statistics.joined_again.size() == 1);
      CHECK(has(statistics.joined_again[0], "worker/2 at step "));
      if (!pace.synchronous()) CHECK(job.stores[0]->updates >= 300);
    }
  }

  TEST_CASE("servers: without a worker the sum is scaled up to the whole batch") {
    CapturedLog log;
    ServerJob job(3, 1, synchronous_pace());
    std::vector<double> scales;
    job.stores[0]->on_apply = [&](const std::vector<const Push*>&, double scale) {
      scales.push_back(scale);
    };
    run_ranks(3, [&](int rank) {
      const auto client = job.started(rank, 4);
      FloatModel model(job.model);
      int steps = 0;
      while (client->begin(model.install()).step) {
        if (rank == 2 && ++steps == 3) return;  // lost within the third step
        Push push = model.gradient(1.0F);
        push.weight = 10;
        push.divisor = 30;
        client->push(push, model.install());
        client->end();
      }
      if (rank == 0) client->finish("done");
      client->close();
    });
    for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
    CHECK(scales == std::vector<double>{1.0, 1.0, 1.5, 1.5});
  }

  TEST_CASE("servers: when the chief is lost, everybody stops and names it") {
    for (const ServerOptions& pace : {ServerOptions{}, synchronous_pace()}) {
      ServerJob job(2, 2, pace);
      const auto errors = try_ranks(2, [&](int rank) {
        const auto client = job.started(rank, 1'000'000);
        FloatModel model(job.model);
        for (int step = 0; client->begin(model.install()).step; ++step) {
          if (rank == 0 && step == 5) return;  // without a goodbye
          push_one(*client, model, 0);
          client->end();
        }
      });
      CHECK(is<PeerLost>(errors[1]));
      CHECK(has(message_of(errors[1]), "worker/0 is gone"));
      for (const auto& error : job.server_errors()) {
        CHECK(is<PeerLost>(error));
        CHECK(has(message_of(error), "worker/0 is gone"));
      }
    }
  }

  TEST_CASE("servers: when a server is lost, everybody stops and names it") {
    ServerJob job(2, 1, ServerOptions{});
    LoopbackListener listener;
    Cluster cluster = job.cluster;
    // The real ps/0 must know the same cluster, so it is made here.
    cluster.servers.push_back({"ps/1", Endpoint{"127.0.0.1", listener.port()}});
    LoopbackListener first;
    cluster.servers[0].address->port = first.port();
    ServedModel model = small_model(2);
    FloatStore store(model, 0);
    Cluster zero = cluster;
    zero.server = 0;
    zero.listener = detail::InheritedSocket(first.release());
    ServerProcess server(zero, job.options, ServerOptions{}, model, store);
    auto served = std::async(std::launch::async, [&] { server.run({}); });
    ServerThatDies dies(listener.release());
    const auto errors = try_ranks(2, [&](int rank) {
      Cluster mine = cluster;
      mine.rank = rank;
      ServerClient client(mine, job.options, ServerOptions{}, model);
      client.join({});
      if (rank == 0) client.start({store.save(), {}}, 0, 100);
      if (rank == 1) static_cast<void>(client.wait_for_start());
      FloatModel values(model);
      while (client.begin(values.install()).step) client.end();
    });
    for (const auto& error : errors) {
      CHECK(is<PeerLost>(error));
      CHECK(has(message_of(error), "ps/1 is gone"));
    }
    CHECK_THROWS_WITH_AS(served.get(), doctest::Contains("ps/1 is gone"), PeerLost);
    auto alone = job.client(0);  // ends the job that only lent its options
    alone->join({});
    alone->abort("the test is over", 1);
  }

  TEST_CASE("servers: a worker's own failure reaches everybody with its reason and exit code") {
    ServerJob job(3, 2, bounded_pace(1));
    const auto errors = try_ranks(3, [&](int rank) {
      const auto client = job.started(rank, 1'000'000);
      FloatModel model(job.model);
      for (int step = 0; client->begin(model.install()).step; ++step) {
        if (rank == 1 && step == 3) return client->abort("file 7 is damaged", 42);
        push_one(*client, model, 0);
        client->end();
      }
    });
    CHECK(message_of(errors[1]) == "");
    RankErrors others = {errors[0], errors[2]};
    for (const auto& error : job.server_errors()) others.push_back(error);
    for (const auto& error : others) {
      CHECK(is<PeerFailed>(error));
      CHECK(has(message_of(error), "worker/1 failed: file 7 is damaged."));
    }
  }

  TEST_CASE("servers: what the store throws ends the job with its reason") {
    ServerJob job(2, 2, ServerOptions{});
    job.stores[1]->on_apply = [](const std::vector<const Push*>&, double) {
      throw DataError("the store is broken.", "mend it.");
    };
    const auto errors = try_ranks(2, [&](int rank) {
      const auto client = job.started(rank, 1'000'000);
      FloatModel model(job.model);
      train(*client, model, push_one);
    });
    for (const auto& error : errors) {
      CHECK(is<PeerFailed>(error));
      CHECK(has(message_of(error), "ps/1 failed: the store is broken."));
    }
    CHECK(is<PeerFailed>(job.server_errors()[0]));
    CHECK(is<DataError>(job.server_errors()[1]));
  }

  TEST_CASE("servers: a worker whose heartbeats stop is lost, and reads so") {
    CapturedLog log;
    GroupOptions options = test_options();
    options.heartbeat_interval = std::chrono::milliseconds(100);
    options.heartbeat_timeout = std::chrono::milliseconds(2500);
    ServerJob job(2, 1, synchronous_pace(), options);
    Hello hello;
    hello.rank = 1;
    hello.task = "worker/1";
    hello.fingerprint = cluster_fingerprint(job.cluster);
    hello.signature_hash = signature_hash({});
    hello.must_match = server_terms({}, job.pace, job.model).must_match;
    RawClient silent(job.cluster.servers[0].address->port);
    REQUIRE(silent.prove({Purpose::serving, 0, "worker/1", "ps/0"}));
    silent.send_frame(header_of(FrameType::hello, 1), to_json(hello));
    CHECK(silent.read_some() != "");  // entry
    silent.send_frame(header_of(FrameType::enter, 1), "");
    const auto client = job.started(0, 5);
    FloatModel model(job.model);
    CHECK(train(*client, model, push_one).size() == 5);  // waits for worker/1 until it is lost
    CHECK(client->finish("done").lost.size() == 1);
    client->close();
    CHECK(message_of(job.server_errors()[0]) == "");
    CHECK(log.has("worker/1 is lost at step 0; training continues without it: no heartbeat for"));
    CHECK(has(silent.read_to_end(), "worker/1 is gone: no heartbeat"));
  }

  TEST_CASE("servers: a wait that takes too long names who is waited for") {
    GroupOptions options = test_options();
    options.heartbeat_interval = std::chrono::milliseconds(50);
    options.collective_timeout = std::chrono::milliseconds(700);
    ServerJob job(2, 1, synchronous_pace(), options);
    std::promise<void> over;
    auto is_over = over.get_future().share();
    const auto errors = try_ranks(2, [&](int rank) {
      const auto client = job.started(rank, 5);
      FloatModel model(job.model);
      if (rank == 1) return is_over.wait();
      try {
        train(*client, model, push_one);
      } catch (const Error& error) {
        client->abort(error.what(), error.exit_code());
        over.set_value();
        throw;
      }
    });
    CHECK(is<TimeoutError>(errors[0]));
    CHECK(has(message_of(errors[0]), "ps/0 at 127.0.0.1:"));
    CHECK(has(message_of(errors[0]), "it waits for worker/1 (at clock 0)"));
    CHECK(is<PeerFailed>(job.server_errors()[0]));
  }

  TEST_CASE("servers: workers that update different optimisers in one round stop the job") {
    ServerJob job(2, 1, synchronous_pace());
    const auto errors = try_ranks(2, [&](int rank) {
      const auto client = job.started(rank, 5);
      FloatModel model(job.model);
      train(*client, model, [&](ServerClient& c, FloatModel& m, std::int64_t number) {
        c.push(m.gradient(1.0F, number == 2 ? rank : 0), m.install());
      });
    });
    for (const auto& error : errors) {
      CHECK(is<DesyncError>(error));
      CHECK(has(message_of(error), "updates optimizer 0 in push 1 of step 2"));
      CHECK(has(message_of(error), "updates optimizer 1 in push 1 of step 2"));
      CHECK(has(message_of(error), "worker/0"));
      CHECK(has(message_of(error), "worker/1"));
    }
    CHECK(is<DesyncError>(job.server_errors()[0]));
  }

  TEST_CASE("servers: SIGTERM waits for the chief's end") {
    ServerJob job(2, 2, ServerOptions{});
    run_ranks(2, [&](int rank) {
      const auto client = job.started(rank, 50);
      if (rank == 0) std::raise(SIGTERM);
      FloatModel model(job.model);
      train(*client, model, push_one);
      if (rank == 0) CHECK(client->finish("stopped").updates == 50);
      client->close();
    });
    for (const auto& error : job.server_errors()) CHECK(is<Stopped>(error));
  }

  TEST_CASE("servers: SIGINT and SIGHUP wait for the chief's end, too") {
    for (const int number : {SIGINT, SIGHUP}) {
      ServerJob job(1, 2, ServerOptions{});
      const auto client = job.started(0, 20);
      std::raise(number);
      FloatModel model(job.model);
      train(*client, model, push_one);
      CHECK(client->finish("stopped").updates == 20);
      client->close();
      for (const auto& error : job.server_errors()) {
        REQUIRE(is<Stopped>(error));
        try {
          std::rethrow_exception(error);
        } catch (const Stopped& stopped) {
          CHECK(stopped.exit_code() == 128 + number);
        }
      }
    }
  }

  TEST_CASE("servers: SIGTERM before training has begun ends the job at once") {
    GroupOptions options = test_options();
    options.close_timeout = std::chrono::milliseconds(600'000);
    ServerJob job(2, 2, ServerOptions{}, options);
    const auto chief = job.client(0);
    chief->join({});
    std::raise(SIGTERM);
    CHECK_THROWS_WITH_AS(chief->start(job.zero_states(), 0, 5),
                         doctest::Contains("was stopped by SIGTERM"), PeerFailed);
    // A server may hear of the other's signal, through the chief, before its own reaches it.
    const auto& errors = job.server_errors();
    CHECK((is<Stopped>(errors[0]) || is<Stopped>(errors[1])));
    for (const auto& error : errors) {
      CHECK((is<Stopped>(error) || is<PeerFailed>(error)));
      CHECK(has(message_of(error), "was stopped by SIGTERM"));
      CHECK(exit_code_of(error) == 128 + SIGTERM);
    }
  }

  TEST_CASE("servers: a push for no optimiser, or with other rates, costs its worker alone") {
    for (const bool no_optimizer : {true, false}) {
      CAPTURE(no_optimizer);
      const CapturedLog log;
      ServerJob job(2, 1, ServerOptions{});
      const auto errors = try_ranks(2, [&](int rank) {
        const auto client = job.started(rank, 200);
        FloatModel model(job.model);
        train(*client, model, [&](ServerClient& c, FloatModel& m, std::int64_t number) {
          if (rank == 0) return push_one(c, m, number);
          Push bad;
          bad.optimizer = no_optimizer ? 77 : 0;
          bad.learning_rates.assign(no_optimizer ? 1 : 5, 0.5);
          c.push(bad, m.install());
        });
        if (rank == 0) static_cast<void>(client->finish("done"));
        client->close();
      });
      CHECK(message_of(errors[0]) == "");
      CHECK(is<PeerLost>(errors[1]));
      CHECK(message_of(job.server_errors()[0]) == "");
      CHECK(has(log.text(), "it sent a frame that the protocol does not have"));
    }
  }

  TEST_CASE("servers: SIGTERM to a server alone ends the job after close_timeout") {
    GroupOptions options = test_options();
    options.close_timeout = std::chrono::milliseconds(300);
    ServerJob job(1, 1, ServerOptions{}, options);
    const auto client = job.started(0, 1'000'000'000);
    std::raise(SIGTERM);
    FloatModel model(job.model);
    CHECK_THROWS_WITH_AS(train(*client, model, push_one),
                         doctest::Contains("ps/0 was stopped by SIGTERM"), PeerFailed);
    CHECK(is<Stopped>(job.server_errors()[0]));
  }

  TEST_CASE("servers: workers learn why training ended, also within a round") {
    for (const ServerOptions& pace : {ServerOptions{}, bounded_pace(1), synchronous_pace()}) {
      ServerJob job(3, 2, pace);
      run_ranks(3, [&](int rank) {
        const auto client = job.started(rank, 1'000'000);
        FloatModel model(job.model);
        for (int step = 0;; ++step) {
          if (rank == 0 && step == 7) {
            client->finish("the loss is low enough");
            break;
          }
          const auto begun = client->begin(model.install());
          if (!begun.step) {
            CHECK(begun.ended == "the loss is low enough");
            CHECK(begun.last_step >= 6);
            break;
          }
          push_one(*client, model, 0);
          client->end();
        }
        client->close();
      });
      for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
    }
  }
}

}  // namespace servers_failure_test
