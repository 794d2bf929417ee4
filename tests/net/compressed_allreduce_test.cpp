// Sums with 16 bits per value on the wire: the same bits everywhere, half of the bytes, and nothing
// lost that does not come back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/distributed/collectives/rounding.h"

namespace compressed_allreduce_test {

namespace {

using troupe::Deadline;
using troupe::Span;
using troupe::WireType;
using troupe::WorkerGroup;
using troupe::testing::run_group;
using troupe::testing::soon;

/// All of the mantissa in use, of both signs, in [-1, 1].
std::vector<float> values_of(int rank, std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto mixed = static_cast<std::uint32_t>((i + 1) * 2654435761U +
                                                  40503U * (1U + static_cast<std::uint32_t>(rank)));
    values[i] = static_cast<float>(mixed * 747796405U) / 2147483648.0F - 1.0F;
  }
  return values;
}

struct RankResult {
  std::vector<float> values;
  std::vector<float> errors;
};

std::vector<RankResult> reduce_once(int world_size, std::size_t n, WireType wire) {
  std::vector<RankResult> results(static_cast<std::size_t>(world_size));
  run_group(world_size, [&](WorkerGroup& group) {
    RankResult& own = results[static_cast<std::size_t>(group.rank())];
    own.values = values_of(group.rank(), n);
    own.errors.assign(n, 0.0F);
    group.all_reduce(Span<float>(own.values), Span<float>(own.errors), wire, soon());
  });
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Sum of inputs = sum + errors of all ranks, up to what float additions round.
bool nothing_is_lost(const std::vector<RankResult>& results) {
  for (std::size_t i = 0; i < results[0].values.size(); ++i) {
    double before = 0;
    double after = results[0].values[i];
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      before += values_of(static_cast<int>(rank), i + 1)[i];
      after += results[rank].errors[i];
    }
    if (std::abs(before - after) > 1e-6 * static_cast<double>(results.size())) return false;
  }
  return true;
}

// Links alone, whose bytes are counted.
troupe::GroupOptions by_tcp() {
  auto options = troupe::testing::test_options();
  options.transport = troupe::Transport::tcp;
  return options;
}

/// Bytes that all ranks send for one sum of `n` values, with 32 and with 16 bits each.
std::pair<std::uint64_t, std::uint64_t> bytes_of_both(int world_size, std::size_t n) {
  std::vector<std::uint64_t> full(static_cast<std::size_t>(world_size));
  std::vector<std::uint64_t> half(full.size());
  run_group(
      world_size,
      [&](WorkerGroup& group) {
        std::vector<float> values(n, 1.0F);
        std::vector<float> errors(n, 0.0F);
        const auto own = static_cast<std::size_t>(group.rank());
        const std::uint64_t start = group.sent_bytes();
        group.all_reduce(Span<float>(values), soon());
        full[own] = group.sent_bytes() - start;
        group.all_reduce(Span<float>(values), Span<float>(errors), WireType::bfloat16, soon());
        half[own] = group.sent_bytes() - start - full[own];
      },
      by_tcp());
  std::uint64_t full_bytes = 0;
  std::uint64_t half_bytes = 0;
  for (const std::uint64_t bytes : full) full_bytes += bytes;
  for (const std::uint64_t bytes : half) half_bytes += bytes;
  return {full_bytes, half_bytes};
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE(
      "compressed all_reduce: the sum, the same bits on all ranks, and every error accounted") {
    for (const WireType wire : {WireType::float16, WireType::bfloat16}) {
      const double step = wire == WireType::float16 ? 0x1p-11 : 0x1p-8;  // of numbers near 1
      for (const int world_size : {2, 3, 4, 7}) {
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
          CAPTURE(world_size);
          CAPTURE(n);
          const auto results = reduce_once(world_size, n, wire);
          for (const RankResult& result : results)
            CHECK(same_bits(result.values, results[0].values));
          CHECK(nothing_is_lost(results));
          for (std::size_t i = 0; i < n; ++i) {
            double sum = 0;
            for (int rank = 0; rank < world_size; ++rank) sum += values_of(rank, i + 1)[i];
            // Each of W roundings is of a number of at most W.
            CHECK(std::abs(results[0].values[i] - sum) <= step * world_size * world_size);
          }
          const auto repeat = reduce_once(world_size, n, wire);
          CHECK(same_bits(repeat[0].values, results[0].values));
          CHECK(same_bits(repeat[0].errors, results[0].errors));
        }
      }
    }
  }

  TEST_CASE("compressed all_reduce: a long vector in pieces of any size") {
    const auto results = reduce_once(3, 300007, WireType::bfloat16);
    for (const RankResult& result : results) CHECK(same_bits(result.values, results[0].values));
    double worst = 0;
    for (std::size_t i = 0; i < results[0].values.size(); i += 997) {
      double sum = 0;
      for (int rank = 0; rank < 3; ++rank) sum += values_of(rank, i + 1)[i];
      worst = std::max(worst, std::abs(results[0].values[i] - sum));
    }
    CHECK(worst < 9 * 0x1p-8);
  }

  TEST_CASE("compressed all_reduce: errors given back keep the running sum exact") {
    constexpr std::size_t kCount = 200;
    constexpr int kCalls = 100;
    for (const bool feedback : {true, false}) {
      std::vector<double> drift(3, 0.0);
      run_group(3, [&](WorkerGroup& group) {
        std::vector<double> total(kCount, 0.0);
        std::vector<double> exact(kCount, 0.0);
        std::vector<float> errors(kCount, 0.0F);
        for (int call = 0; call < kCalls; ++call) {
          auto values = values_of(group.rank(), kCount);
          // Small numbers on top of a large one: bfloat16 loses the same each time.
          for (float& value : values) value = 1.0F + value * 0.001F;
          for (int rank = 0; rank < 3; ++rank) {
            const auto theirs = values_of(rank, kCount);
            for (std::size_t i = 0; i < kCount; ++i) exact[i] += 1.0F + theirs[i] * 0.001F;
          }
          if (!feedback) errors.assign(kCount, 0.0F);
          group.all_reduce(Span<float>(values), Span<float>(errors), WireType::bfloat16, soon());
          for (std::size_t i = 0; i < kCount; ++i) total[i] += values[i];
        }
        double worst = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
          worst = std::max(worst, std::abs(total[i] - exact[i]));
        }
        drift[static_cast<std::size_t>(group.rank())] = worst;
      });
      // With feedback only the last call's errors are missing, each at most half a step of 4.
      if (feedback) CHECK(drift[0] < 3 * 0x1p-7);
      if (!feedback) CHECK(drift[0] > 10 * 3 * 0x1p-7);
    }
  }

  TEST_CASE("compressed all_reduce: half of the bytes of float32 on the wire") {
    for (const int world_size : {2, 3}) {
      const std::size_t n = 262144;  // 1 MiB: direct in full, the ring in half
      const auto [full, half] = bytes_of_both(world_size, n);
      const auto messages = static_cast<std::uint64_t>(world_size);
      // Headers have 64 bytes. In full each rank sends a message to every other one.
      CHECK(full == 2 * (messages - 1) * n * 4 + messages * (messages - 1) * (64 + 2 * 4));
      CHECK(half == 2 * (messages - 1) * n * 2 + messages * (64 + 2 * (messages - 1) * 4));
    }
  }

  TEST_CASE("compressed all_reduce: too large for float16 becomes an infinity on all ranks") {
    run_group(2, [](WorkerGroup& group) {
      std::vector<float> values = {40000.0F, 1.0F};
      std::vector<float> errors(2, 0.0F);
      group.all_reduce(Span<float>(values), Span<float>(errors), WireType::float16, soon());
      if (!std::isinf(values[0]) || values[1] != 2.0F) throw std::runtime_error("no infinity");
      if (!std::isfinite(errors[0])) throw std::runtime_error("the error is not finite");
    });
  }

  TEST_CASE("compressed all_reduce: alone, values stay as they are") {
    run_group(1, [](WorkerGroup& group) {
      std::vector<float> values = {0.1F};
      std::vector<float> errors = {0.0F};
      group.all_reduce(Span<float>(values), Span<float>(errors), WireType::bfloat16, soon());
      if (values[0] != 0.1F || errors[0] != 0.0F) throw std::runtime_error("rounded");
    });
  }

  TEST_CASE("compressed all_reduce: a rank that compresses and one that does not are told apart") {
    const auto errors = troupe::testing::try_group(2, [](WorkerGroup& group) {
      std::vector<float> values(100, 1.0F);
      std::vector<float> lost(100, 0.0F);
      if (group.rank() == 0) group.all_reduce(Span<float>(values), soon());
      group.all_reduce(Span<float>(values), Span<float>(lost), WireType::float16, soon());
    });
    const std::string message = troupe::testing::message_of(errors[0]);
    CAPTURE(message);
    CHECK(message.find("400 bytes of float32") != std::string::npos);
    CHECK(message.find("200 bytes of float16") != std::string::npos);
  }

  TEST_CASE("announce: who is in another collective is named") {
    const auto errors = troupe::testing::try_group(2, [](WorkerGroup& group) {
      if (group.rank() == 0) group.barrier(soon(), 400);
      group.barrier(soon());
    });
    const std::string message = troupe::testing::message_of(errors[0]);
    CAPTURE(message);
    CHECK(message.find("all_reduce #1 of 400 bytes") != std::string::npos);
    CHECK(message.find("barrier #1") != std::string::npos);
  }

  TEST_CASE("check: quiet while all is well, else the group's failure with what was being done") {
    const auto errors = troupe::testing::try_group(2, [](WorkerGroup& group) {
      group.check("nothing.");
      group.barrier(soon());
      if (group.rank() == 1) return group.abort("the disk is full.", 1);
      for (const Deadline limit = soon(); !limit.expired();) group.check("worker/0 was waiting.");
    });
    const std::string message = troupe::testing::message_of(errors[0]);
    CAPTURE(message);
    CHECK(message.find("worker/1 failed: the disk is full.") != std::string::npos);
    CHECK(message.find("worker/0 was waiting.") != std::string::npos);
  }
}

}  // namespace compressed_allreduce_test
