#include "troupe/strategies/parameter_server/wire/server_messages.h"

#include <random>

#include "tests/support/test_prelude.h"

namespace server_messages_test {

namespace {
using namespace troupe;  // NOLINT: a test

Span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::vector<std::string> samples() {
  PaceStatistics statistics;
  statistics.updates = 5;
  statistics.staleness = {{0, 3}, {2, 2}};
  statistics.lost = {"worker/2 at step 700"};
  return {to_json(Launch{3, 9}), to_json(StepAnswer{7, 9, ""}),
          to_json(TargetClocks{{0, 4}, {3, 5}}), finish_to_json("done"), to_json(statistics)};
}
// How many readers take it.
int readers(const std::string& json) {
  const auto bytes = bytes_of(json);
  return int(launch_from(bytes).has_value()) + int(step_answer_from(bytes).has_value()) +
         int(target_clocks_from(bytes).has_value()) + int(finish_from(bytes).has_value()) +
         int(statistics_from(bytes).has_value());
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("server_messages: each survives the way") {
    const auto all = samples();
    CHECK(to_json(*launch_from(bytes_of(all[0]))) == all[0]);
    CHECK(to_json(*step_answer_from(bytes_of(all[1]))) == all[1]);
    CHECK(to_json(*target_clocks_from(bytes_of(all[2]))) == all[2]);
    CHECK(*finish_from(bytes_of(all[3])) == "done");
    CHECK(to_json(*statistics_from(bytes_of(all[4]))) == all[4]);
  }

  TEST_CASE("server_messages: what is cut short or out of range is refused, never thrown") {
    for (const std::string& json : samples()) {
      for (std::size_t n = 0; n < json.size(); ++n) CHECK(readers(json.substr(0, n)) == 0);
    }
    CHECK_FALSE(launch_from(bytes_of("{\"step\":-1,\"last_step\":1}")));
    CHECK_FALSE(launch_from(bytes_of("{\"step\":0,\"last_step\":9223372036854775807}")));
    CHECK_FALSE(step_answer_from(bytes_of("{\"step\":-1,\"last_step\":1,\"ended\":\"\"}")));
    CHECK_FALSE(step_answer_from(bytes_of("{\"last_step\":1,\"ended\":7}")));
    CHECK_FALSE(target_clocks_from(bytes_of("{\"clocks\":[[0]]}")));
    for (const char* clocks :
         {"7", "[7]", "[[0,1,2]]", "[[0,1],[0,2]]", "[[1,1],[0,2]]", "{\"a\":[0,1]}", "null"}) {
      CAPTURE(clocks);
      CHECK_FALSE(target_clocks_from(bytes_of(std::string("{\"clocks\":") + clocks + "}")));
    }
  }

  TEST_CASE("server_messages: mutations are read or refused, never thrown") {
    std::mt19937 random(5);
    for (int round = 0; round < 5'000; ++round) {
      std::string json = samples()[static_cast<std::size_t>(round) % 5];
      for (auto n = random() % 3 + 1; n > 0; --n) {
        json[random() % json.size()] = static_cast<char>(random());
      }
      CHECK(readers(json) <= 5);
    }
  }
}

}  // namespace server_messages_test
