#include "troupe/strategies/parameter_server/wire/row_messages.h"

#include <cstring>
#include <random>

#include "tests/support/test_prelude.h"

namespace row_messages_test {

namespace {
using troupe::Span;

troupe::ServedModel model() {
  troupe::ServedModel served;
  served.tensors = {{"a", 0, 4, 12}, {"b", 1, 2, 8}, {"c", -1, 1, 4}};
  served.shards = {{0, 0, 0, 2}, {0, 1, 2, 2}, {1, 0, 0, 2}, {2, 0, 0, 1}};
  return served;
}

// Row r of a shard holds the bytes r, r, r, ...
class CountingStore final : public troupe::ParameterStore {
 public:
  void load(Span<const std::byte>) override {}
  std::vector<std::byte> save() override { return {}; }
  [[nodiscard]] bool accepts(const troupe::Push&) const override { return true; }
  void apply(const std::vector<const troupe::Push*>&, double) override {}
  void read(int shard, Span<const std::int64_t> rows, Span<std::byte> out) const override {
    const auto served = model();
    const auto width = served.tensor_of(served.shards[static_cast<std::size_t>(shard)]).row_bytes;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto row = rows.empty() ? static_cast<std::int64_t>(i / width) : rows[i / width];
      out[i] = static_cast<std::byte>(row);
    }
  }
};

const std::vector<std::int64_t> kRows = {1};
const std::vector<float> kDense = {1, 2, 3, 4, 5, 6};
const std::vector<float> kSparse = {7, 8, 9};

troupe::Push sample() {
  troupe::Push push;
  push.learning_rates = {0.5, 0.25};
  push.weight = 8.5;
  push.divisor = 16;
  push.gradients = {{0, true, {}, troupe::as_bytes(Span<const float>(kDense))},
                    {1, false, kRows, troupe::as_bytes(Span<const float>(kSparse))}};
  return push;
}

std::vector<std::byte> sample_message(int server) {
  return troupe::encode_push({3, 2}, sample(), model(), server);
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("row_messages: a push survives the way, each server's part") {
    const auto first = troupe::decode_push(sample_message(0), model(), 0);
    REQUIRE(first);
    CHECK(first->place.clock == 3);
    CHECK(first->place.sequence == 2);
    CHECK(first->push.learning_rates == std::vector<double>{0.5, 0.25});
    CHECK(first->push.weight == 8.5);
    CHECK(first->push.divisor == 16);
    REQUIRE(first->push.gradients.size() == 1);
    CHECK(first->push.gradients[0].all_rows);
    CHECK(std::memcmp(first->push.gradients[0].values.data(), kDense.data(), 24) == 0);
    const auto second = troupe::decode_push(sample_message(1), model(), 1);
    REQUIRE(second);
    REQUIRE(second->push.gradients.size() == 1);
    REQUIRE(second->push.gradients[0].rows.size() == 1);
    CHECK(second->push.gradients[0].rows[0] == 1);
    CHECK(reinterpret_cast<std::uintptr_t>(second->push.gradients[0].rows.data()) % 8 == 0);
    CHECK(std::memcmp(second->push.gradients[0].values.data(), kSparse.data(), 12) == 0);
  }

  TEST_CASE("row_messages: a push for another server, optimiser or size is refused") {
    CHECK_FALSE(troupe::decode_push(sample_message(0), model(), 1));
    troupe::Push push = sample();
    push.optimizer = 1;  // does not own shard 0
    CHECK_FALSE(troupe::decode_push(encode_push({}, push, model(), 0), model(), 0));
    push = sample();
    push.gradients.push_back(push.gradients[0]);  // the same shard twice
    CHECK_FALSE(troupe::decode_push(encode_push({}, push, model(), 0), model(), 0));
    push = sample();
    push.weight = -1;
    CHECK_FALSE(troupe::decode_push(encode_push({}, push, model(), 0), model(), 0));
    const std::vector<std::int64_t> outside = {2};
    push = sample();
    push.gradients[1].rows = outside;
    CHECK_FALSE(troupe::decode_push(encode_push({}, push, model(), 1), model(), 1));
    auto longer = sample_message(0);
    longer.resize(longer.size() + 8);
    CHECK_FALSE(troupe::decode_push(longer, model(), 0));
  }

  TEST_CASE("row_messages: what is cut short is refused, wherever it is cut") {
    for (const int server : {0, 1}) {
      const auto whole = sample_message(server);
      for (std::size_t n = 0; n < whole.size(); ++n) {
        std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
        CHECK_FALSE(troupe::decode_push(cut, model(), server));
      }
    }
  }

  TEST_CASE("row_messages: counts that are too large are refused before anything is built") {
    for (const std::size_t at : {32U, 36U, 56U, 64U}) {  // rates, blocks, shard, rows
      for (const std::uint64_t count : {std::uint64_t{0x7FFFFFFF}, ~std::uint64_t{0}}) {
        auto message = sample_message(1);
        REQUIRE(at + 4 <= message.size());
        std::memcpy(message.data() + at, &count, 4);
        const auto decoded = troupe::decode_push(message, model(), 1);
        if (decoded) CHECK(decoded->push.gradients.size() <= 1);
      }
    }
  }

  TEST_CASE("row_messages: random bytes and mutations never make views outside the message") {
    std::mt19937 random(11);
    for (int round = 0; round < 20'000; ++round) {
      const int server = round % 2;
      auto message = sample_message(server);
      if (round % 5 == 0) {
        message.resize(random() % 200);
        for (auto& byte : message) byte = static_cast<std::byte>(random());
      } else {
        for (auto n = random() % 3 + 1; n > 0; --n) {
          message[random() % message.size()] = static_cast<std::byte>(random());
        }
      }
      const auto decoded = troupe::decode_push(message, model(), server);
      if (decoded) {
        const auto* begin = decoded->message.data();
        for (const auto& block : decoded->push.gradients) {
          const bool inside =
              block.values.data() >= begin &&
              block.values.data() + block.values.size() <= begin + decoded->message.size();
          CHECK(inside);
          for (const auto row : block.rows) CHECK((row >= 0 && row < 2));
        }
      }
      static_cast<void>(troupe::decode_values(Span<const std::byte>(message), model(), server));
    }
  }

  TEST_CASE("row_messages: values survive the way") {
    const std::vector<troupe::ChangeLog::Change> changes = {{0, true, {}}, {2, false, {1}}};
    const auto message = troupe::encode_values(changes, model(), CountingStore());
    const auto blocks = troupe::decode_values(Span<const std::byte>(message), model(), 0);
    REQUIRE(blocks);
    REQUIRE(blocks->size() == 2);
    CHECK((*blocks)[0].values.size() == 24);
    CHECK((*blocks)[0].values[23] == std::byte{1});
    CHECK((*blocks)[1].rows[0] == 1);
    CHECK((*blocks)[1].values[7] == std::byte{1});
    for (std::size_t n = 0; n < message.size(); ++n) {
      CHECK_FALSE(troupe::decode_values({message.data(), n}, model(), 0));
    }
    CHECK_FALSE(troupe::decode_values(Span<const std::byte>(message), model(), 1));
  }

  TEST_CASE("row_messages: the limit holds the largest message and little more") {
    const auto limits = troupe::bulk_limits(model(), 0);
    const std::vector<troupe::ChangeLog::Change> all = {
        {0, true, {}}, {2, true, {}}, {3, true, {}}};
    auto message = troupe::encode_values(all, model(), CountingStore());
    CHECK(limits.rows >= message.size());
    const auto same = message;
    const std::byte* const memory = message.data();
    message = troupe::encode_values(all, model(), CountingStore(), std::move(message));
    CHECK(message.data() == memory);
    CHECK(message == same);
    CHECK(limits.rows < (1 << 20) + 1000);
  }
}

}  // namespace row_messages_test
