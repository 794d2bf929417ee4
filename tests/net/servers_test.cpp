#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/net/server_job.h"
#include "tests/support/caught.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

// Takes steps until training is over; `step` makes the pushes.
using Step = std::function<void(ServerClient&, FloatModel&, std::int64_t number)>;
std::vector<std::int64_t> train(ServerClient& client, FloatModel& model, const Step& step) {
  std::vector<std::int64_t> numbers;
  for (;;) {
    const auto begun = client.begin(model.install());
    if (!begun.step) return numbers;
    numbers.push_back(*begun.step);
    step(client, model, *begun.step);
    client.end();
  }
}

void push_one(ServerClient& client, FloatModel& model, std::int64_t) {
  client.push(model.gradient(1.0F), model.install());
}

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
      ServerJob job(workers, servers, Pace{});
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
      const Trained trained =
          train_all(job, 10, [](ServerClient& client, FloatModel& model, std::int64_t number) {
            const auto before = static_cast<float>(number - 1);
            if (model.values[0][0] != before * -1.0F * 0.0F && number == 1) {
              throw std::runtime_error("the first values are wrong");
            }
            client.push(model.gradient(1.0F), model.install());
            client.push(model.gradient(2.0F, 1), model.install());
          });
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
}
