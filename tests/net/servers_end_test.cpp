// Parameter servers that are busy, and the end of training: nobody is cut off by somebody's haste.
#include <chrono>
#include <future>
#include <utility>

#include "tests/net/server_job.h"
#include "tests/support/caught.h"
#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace servers_end_test {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

TEST_SUITE("net") {
  TEST_CASE("servers: the chief says goodbye when it has tested, however long that takes") {
    GroupOptions options = test_options();
    options.close_timeout = std::chrono::milliseconds(500);
    int late_rank = 0;
    SUBCASE("it alone is late") {}
    SUBCASE("another worker is late, too") { late_rank = 1; }
    ServerJob job(2, 2, ServerOptions{}, options);
    run_ranks(2, [&](int rank) {
      const auto client = job.started(rank, 20);
      FloatModel model(job.model);
      train(*client, model, push_one);
      if (rank == 0) CHECK(client->finish("done").updates == 20);
      if (rank <= late_rank) take_time((5 - rank) * options.close_timeout);
      client->close();
    });
    for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
  }

  TEST_CASE("servers: a server that computes for long is not taken for lost") {
    GroupOptions options = test_options();
    options.heartbeat_interval = std::chrono::milliseconds(100);
    options.heartbeat_timeout = std::chrono::milliseconds(2500);
    const auto long_time = options.heartbeat_timeout + std::chrono::milliseconds(500);
    for (const ServerOptions& pace : {ServerOptions{}, synchronous_pace()}) {
      ServerJob job(2, 2, pace, options);
      job.stores[1]->on_apply = [&, first = true](const auto&, double) mutable {
        if (std::exchange(first, false)) take_time(long_time);
      };
      run_ranks(2, [&](int rank) {
        const auto client = job.started(rank, 4);
        FloatModel model(job.model);
        train(*client, model, push_one);
        if (rank == 0) CHECK(client->finish("done").lost.empty());
        client->close();
      });
      for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
    }
  }

  TEST_CASE("servers: a push that comes after the end is no reason for the others to fail") {
    ServerJob job(3, 2, synchronous_pace());
    std::promise<void> all_begun[2];
    std::promise<void> first_left;
    run_ranks(3, [&](int rank) {
      const auto client = job.started(rank, 100);
      FloatModel model(job.model);
      if (rank == 0) {
        for (auto& begun : all_begun) begun.get_future().wait();
        client->finish("enough");
        return client->close();
      }
      REQUIRE(client->begin(model.install()).step);
      all_begun[rank - 1].set_value();
      if (rank == 2) first_left.get_future().wait();
      push_one(*client, model, 0);
      client->end();
      CHECK(client->begin(model.install()).ended == "enough");
      if (rank == 1) first_left.set_value();
      client->close();
    });
    for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
  }
}

}  // namespace servers_end_test
