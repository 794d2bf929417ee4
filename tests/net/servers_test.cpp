#include <atomic>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/net/server_job.h"
#include "tests/support/caught.h"
#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace servers_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

// All workers train; the chief finishes when the last step has ended.
struct Trained {
  std::vector<std::vector<std::int64_t>> numbers;  // by rank
  PaceStatistics statistics;
  ServerClient::Collected collected;
};
Trained train_all(ServerJob& job, std::int64_t last_step, const Step& step = push_one) {
  Trained trained;
  const int workers = job.cluster.world_size();
  trained.numbers.resize(static_cast<std::size_t>(workers));
  run_ranks(workers, [&](int rank) {
    const auto client = job.started(rank, last_step);
    FloatModel model(job.model);
    trained.numbers[static_cast<std::size_t>(rank)] = train(*client, model, step);
    if (rank == 0) {
      trained.collected = client->collect(model.install());
      trained.statistics = client->finish("done");
    }
    client->close();
  });
  for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
  return trained;
}

float first_value(const std::vector<std::byte>& state) {
  float value = 0.0F;
  std::memcpy(&value, state.data(), sizeof(value));
  return value;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("servers: asynchronous training takes exactly the steps that were asked for") {
    for (const auto& [workers, servers] : {std::pair{1, 1}, {2, 1}, {3, 2}, {2, 3}}) {
      CAPTURE(workers);
      CAPTURE(servers);
      ServerJob job(workers, servers, ServerOptions{});
      const Trained trained = train_all(job, 41);
      std::set<std::int64_t> all;
      std::size_t count = 0;
      for (const auto& numbers : trained.numbers) {
        all.insert(numbers.begin(), numbers.end());
        count += numbers.size();
      }
      CHECK(count == 41);
      CHECK(all.size() == 41);
      CHECK(*all.begin() == 1);
      CHECK(*all.rbegin() == 41);
      CHECK(trained.statistics.updates == 41);
      CHECK(trained.collected.step == 41);
      for (const auto& store : job.stores) CHECK(store->updates == 41);
      for (const auto& state : trained.collected.states) CHECK(first_value(state) == -41.0F);
    }
  }

  TEST_CASE("servers: synchronous training makes one update of all workers' gradients") {
    for (const auto& [workers, servers] : {std::pair{1, 1}, {2, 1}, {3, 2}, {4, 3}}) {
      CAPTURE(workers);
      CAPTURE(servers);
      ServerJob job(workers, servers, synchronous_pace());
      const Step two_pushes = [&, count = workers](ServerClient& client, FloatModel& mine,
                                                   std::int64_t number) {
        const auto before = static_cast<float>((number - 1) * -count);
        for (const auto& shard : mine.values) {
          const bool constant = &shard == &mine.values.back();  // no optimiser owns it
          if (shard.back() != before * (constant ? 0.0F : 1.0F)) {
            throw std::runtime_error("values of another step");
          }
        }
        client.push(mine.gradient(1.0F), mine.install());
        client.push(mine.gradient(1.0F, 1), mine.install());
      };
      const Trained trained = train_all(job, 10, two_pushes);
      for (const auto& numbers : trained.numbers) {
        CHECK(numbers == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
      }
      CHECK(trained.statistics.updates == 10);
      CHECK(trained.statistics.staleness.at(0) == 10);
      CHECK(trained.collected.step == 10);
      for (const auto& store : job.stores) CHECK(store->updates == 20);
      CHECK(first_value(trained.collected.states[0]) == static_cast<float>(-10 * workers));
    }
  }

  TEST_CASE("servers: gradients are added in rank order, bit for bit") {
    const std::vector<float> gradients = {1e8F, 1.0F, -1e8F, 0.25F};
    float sum = 0.0F;
    for (const float gradient : gradients) sum += gradient;
    ServerJob job(4, 2, synchronous_pace());
    run_ranks(4, [&](int rank) {
      const auto client = job.started(rank, 5);
      FloatModel model(job.model);
      std::mt19937 random(static_cast<unsigned>(rank) + 7);
      train(*client, model, [&](ServerClient& c, FloatModel& m, std::int64_t number) {
        CHECK(m.values[0][0] == -static_cast<float>(number - 1) * sum);
        for (auto n = random() % 200; n > 0; --n) std::this_thread::yield();
        c.push(m.gradient(gradients[static_cast<std::size_t>(rank)]), m.install());
      });
      if (rank == 0) client->finish("done");
      client->close();
    });
    for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
  }

  // Every worker counts its own steps in an element of its own, so what a worker reads shows which
  // steps of whom are in it.
  TEST_CASE("servers: nobody computes on values that are staler than the bound") {
    for (const std::int64_t bound : {1, 2, 5}) {
      CAPTURE(bound);
      ServerJob job(3, 2, bounded_pace(bound));
      PaceStatistics statistics;
      std::atomic<std::int64_t> worst{0};
      run_ranks(3, [&](int rank) {
        const auto client = job.started(rank, 1000);
        FloatModel model(job.model);
        std::mt19937 random(static_cast<unsigned>(rank));
        std::int64_t clock = 0;
        train(*client, model, [&](ServerClient& c, FloatModel& m, std::int64_t) {
          for (const std::size_t shard : {0U, 1U}) {  // the table's, on different servers
            for (std::size_t w = 0; w < 3; ++w) {
              const auto stale = clock + static_cast<std::int64_t>(m.values[shard][w]);
              if (stale > worst) worst = stale;
            }
          }
          if (random() % 4 == 0) {
            take_time(std::chrono::microseconds(random() % 400));
          }
          Push push = m.gradient(0.0F);
          std::vector<float> unit(m.values[0].size(), 0.0F);
          std::vector<float> other(m.values[1].size(), 0.0F);
          unit[static_cast<std::size_t>(rank)] = other[static_cast<std::size_t>(rank)] = 1.0F;
          push.gradients[0].values = as_bytes(Span<const float>(unit));
          push.gradients[1].values = as_bytes(Span<const float>(other));
          c.push(push, m.install());
          ++clock;
        });
        if (rank == 0) statistics = client->finish("done");
        client->close();
      });
      for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
      CHECK(worst <= bound);
      CHECK(worst >= 1);  // or the test would show nothing
      CHECK(statistics.updates == 1000);
      CHECK(statistics.staleness.rbegin()->first <= bound);
      std::int64_t counted = 0;
      for (const auto& [staleness, count] : statistics.staleness) counted += count;
      CHECK(counted == 1000);
    }
  }

  TEST_CASE("servers: rows that were not touched do not travel") {
    ServerJob job(1, 2, ServerOptions{});
    const auto client = job.started(0, 20);
    FloatModel model(job.model);
    const std::vector<std::int64_t> rows = {4, 1};
    const std::vector<float> gradient = {1.0F, 1.0F, 2.0F, 2.0F};
    std::int64_t first_pulled = 0;
    std::vector<std::int64_t> numbers =
        train(*client, model, [&](ServerClient& c, FloatModel& m, std::int64_t number) {
          if (number == 1) first_pulled = c.traffic().pulled;
          Push push = m.gradient(0.0F);
          push.gradients.resize(1);
          push.gradients[0].all_rows = false;
          push.gradients[0].rows = Span<const std::int64_t>(rows);
          push.gradients[0].values = as_bytes(Span<const float>(gradient));
          c.push(push, m.install());
        });
    CHECK(numbers.size() == 20);
    // 8 bytes of head, 16 of block, 2 rows of 8 + 8 bytes; nothing from the other server.
    CHECK(client->traffic().pulled - first_pulled <= 20 * (8 + 16 + 2 * 16));
    const auto collected = client->collect(model.install());
    CHECK(model.values[0][2] == -40.0F);
    CHECK(model.values[0][8] == -20.0F);
    CHECK(model.values[0][0] == 0.0F);
    CHECK(first_value(collected.states[0]) == 0.0F);
    client->finish("done");
    client->close();
    for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
  }

  TEST_CASE("servers: a collection is one moment on all servers while workers go on") {
    for (const ServerOptions& pace : {ServerOptions{}, bounded_pace(2), synchronous_pace()}) {
      CAPTURE(pace.staleness_bound.value_or(-1));
      ServerJob job(3, 2, pace);
      run_ranks(3, [&](int rank) {
        const auto client = job.started(rank, pace.synchronous() ? 200 : 600);
        FloatModel model(job.model);
        for (int steps = 1;; ++steps) {
          const auto begun = client->begin(model.install());
          if (!begun.step) break;
          push_one(*client, model, *begun.step);
          client->end();
          if (rank != 0 || steps % 10 != 0) continue;
          const auto collected = client->collect(model.install());
          // Each step takes 1 off every element, each synchronous one as often as there are
          // workers.
          const auto updates = static_cast<float>(collected.step * (pace.synchronous() ? 3 : 1));
          CHECK(first_value(collected.states[0]) == -updates);
          CHECK(first_value(collected.states[1]) == -updates);
          CHECK(model.values[0][0] == -updates);
          CHECK(model.values[1][0] == -updates);
        }
        if (rank == 0) client->finish("done");
        client->close();
      });
      for (const auto& error : job.server_errors()) CHECK(message_of(error) == "");
    }
  }
}

}  // namespace servers_test
