// How bytes travel between workers of one machine: the same bits by every transport, what happens
// where one does not work, and memory that outlives its group.
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/worker_group.h"

namespace transport_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

GroupOptions by(Transport transport) {
  GroupOptions options = test_options();
  options.transport = transport;
  return options;
}

// All of the mantissa in use, so that the order of additions shows.
template <class T>
std::vector<T> values_of(int rank, std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto mixed = static_cast<std::uint32_t>((i + 1) * 2654435761U +
                                                  40503U * (1U + static_cast<unsigned>(rank)));
    values[i] = static_cast<T>(mixed) / static_cast<T>(3) - static_cast<T>(7e8);
  }
  return values;
}

// The tree over ranks, written down once more: the sum of ranks begin to end at i.
template <class T>
T tree_sum(std::size_t i, int begin, int end) {
  if (end - begin == 1) return values_of<T>(begin, i + 1)[i];
  int left = 1;
  while (left * 2 < end - begin) left *= 2;
  return tree_sum<T>(i, begin, begin + left) + tree_sum<T>(i, begin + left, end);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Sums of all lengths, one after the other, as every rank gets them; in a buffer, or not.
template <class T>
std::vector<std::vector<T>> sums_by(Transport transport, int world_size,
                                    const std::vector<std::size_t>& lengths,
                                    const std::function<bool(int rank)>& in_buffer) {
  std::vector<std::vector<std::vector<T>>> all(static_cast<std::size_t>(world_size));
  run_group(
      world_size,
      [&](WorkerGroup& group) {
        const auto buffer = group.make_buffer(lengths.back() * sizeof(T) + 4096, soon());
        for (const std::size_t n : lengths) {
          const std::vector<T> mine = values_of<T>(group.rank(), n);
          std::vector<T> own = mine;
          // Somewhere inside, not at its beginning.
          T* const shared = reinterpret_cast<T*>(buffer.get()) + 5;
          Span<T> values = in_buffer(group.rank()) ? Span<T>(shared, n) : Span<T>(own);
          std::copy(mine.begin(), mine.end(), values.begin());
          group.all_reduce(values, soon());
          all[static_cast<std::size_t>(group.rank())].emplace_back(values.begin(), values.end());
        }
      },
      by(transport));
  for (const auto& of_rank : all) {
    for (std::size_t i = 0; i < lengths.size(); ++i) CHECK(same_bits(of_rank[i], all[0][i]));
  }
  return all[0];
}

template <class T>
void check_all_transports(int world_size, const std::vector<std::size_t>& lengths) {
  CAPTURE(world_size);
  const auto nowhere = [](int) { return false; };
  const auto everywhere = [](int) { return true; };
  const auto one_rank = [](int rank) { return rank == 0; };
  const auto expected = sums_by<T>(Transport::tcp, world_size, lengths, nowhere);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (const std::size_t at : {std::size_t{0}, lengths[i] / 2, lengths[i] - 1}) {
      if (at < lengths[i] && at < 4000) CHECK(expected[i][at] == tree_sum<T>(at, 0, world_size));
    }
  }
  const auto check = [&](Transport transport, const std::function<bool(int)>& in_buffer) {
    CAPTURE(name_of(transport));
    const auto got = sums_by<T>(transport, world_size, lengths, in_buffer);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      CAPTURE(lengths[i]);
      CHECK(same_bits(got[i], expected[i]));
    }
  };
  check(Transport::unix_socket, nowhere);
  check(Transport::unix_socket, everywhere);
  check(Transport::shared_memory, nowhere);
  check(Transport::shared_memory, everywhere);
  check(Transport::shared_memory, one_rank);
  check(Transport::automatic, everywhere);
}

// Around the changes from beside the entry to a slot, to parts, to several parts, and in place.
const std::vector<std::size_t> kLengths = {0,    1,     3,     4,     5,      127,    128,   129,
                                           1000, 10923, 32768, 32769, 100003, 262144, 700001};

// Rank r's part is r, 2r, ... times as long as the unit: rank 0's is empty. Twice, so that a place
// that was used before shows, and with ranks whose values lie in a buffer beside others.
void check_all_gather(const GroupOptions& options, int world_size) {
  run_group(
      world_size,
      [&](WorkerGroup& group) {
        for (const std::size_t unit : {std::size_t{0}, std::size_t{1}, std::size_t{30'000}}) {
          std::vector<std::size_t> ends;
          std::vector<std::byte> expected;
          for (int rank = 0; rank < world_size; ++rank) {
            expected.resize(expected.size() + unit * static_cast<std::size_t>(rank),
                            static_cast<std::byte>(rank + 1));
            ends.push_back(expected.size());
          }
          const auto buffer = group.make_buffer(expected.size() + 64, soon());
          for (const int outside : {-1, 0, -1, world_size}) {  // a rank; world_size: all are
            const bool is_outside = outside == world_size || outside == group.rank();
            std::vector<std::byte> own(expected.size());
            std::byte* const memory = is_outside ? own.data() : buffer.get() + 64;
            const Span<std::byte> values(memory, expected.size());
            const auto rank = static_cast<std::size_t>(group.rank());
            for (std::size_t i = 0; i < values.size(); ++i) {
              const bool is_mine = i < ends[rank] && i >= ends[rank] - unit * rank;
              values[i] = is_mine ? expected[i] : std::byte{0};
            }
            group.all_gather(values, Span<const std::size_t>(ends), soon());
            if (!std::equal(values.begin(), values.end(), expected.begin())) {
              throw std::runtime_error(text("wrong bytes: unit ", unit, ", outside ", outside));
            }
          }
        }
      },
      options);
}

// Each rank's own part has the bits of the whole sum. Parts as in check_all_gather, and as often.
template <class T>
void check_reduce_scatter(const GroupOptions& options, int world_size) {
  run_group(
      world_size,
      [&](WorkerGroup& group) {
        const auto own = static_cast<std::size_t>(group.rank());
        for (const std::size_t unit : {std::size_t{0}, std::size_t{1}, std::size_t{30'001}}) {
          std::vector<std::size_t> ends;
          for (int rank = 0; rank < world_size; ++rank) {
            ends.push_back((ends.empty() ? 0 : ends.back()) +
                           unit * static_cast<std::size_t>(rank));
          }
          const std::size_t n = ends.back();
          const std::vector<T> mine = values_of<T>(group.rank(), n);
          std::vector<T> expected = mine;
          group.all_reduce(Span<T>(expected), soon());
          const auto buffer = group.make_buffer((n + 5) * sizeof(T), soon());
          for (const int outside : {-1, 0, -1, world_size}) {
            const bool is_outside = outside == world_size || outside == group.rank();
            std::vector<T> elsewhere(n);
            T* const memory =
                is_outside ? elsewhere.data() : reinterpret_cast<T*>(buffer.get()) + 5;
            std::copy(mine.begin(), mine.end(), memory);
            group.reduce_scatter(Span<T>(memory, n), Span<const std::size_t>(ends), soon());
            const std::size_t begin = own == 0 ? 0 : ends[own - 1];
            // What is the others' is used up: nobody reads it any more.
            std::fill(memory, memory + begin, T{-1});
            std::fill(memory + ends[own], memory + n, T{-1});
            if (std::memcmp(memory + begin, expected.data() + begin,
                            (ends[own] - begin) * sizeof(T)) != 0) {
              throw std::runtime_error(text("wrong bits: unit ", unit, ", outside ", outside));
            }
          }
        }
      },
      options);
}

std::vector<std::exception_ptr> join_all(int world_size, const std::vector<GroupOptions>& options,
                                         const std::function<void(WorkerGroup&)>& fn) {
  LoopbackListener listener;
  const auto clusters = make_clusters(world_size, listener);
  return try_ranks(world_size, [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    WorkerGroup group(clusters[i], options[i]);
    group.join({});
    fn(group);
    group.close();
  });
}

void sum_once(WorkerGroup& group) {
  const auto buffer = group.make_buffer(4000, soon());
  const Span<float> values(reinterpret_cast<float*>(buffer.get()), 1000);
  std::fill(values.begin(), values.end(), 1.0F);
  group.all_reduce(values, soon());
  for (const float value : values) {
    if (value != static_cast<float>(group.world_size())) throw std::runtime_error("wrong sum");
  }
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("transport: all give the same bits, in buffers and out of them") {
    for (const int world_size : {2, 3, 4, 5, 8}) check_all_transports<float>(world_size, kLengths);
    check_all_transports<double>(3, {0, 1, 2, 3, 1000, 50001});
  }

  TEST_CASE("transport: parts of values reach all ranks, in buffers and out of them") {
    for (const Transport transport :
         {Transport::tcp, Transport::unix_socket, Transport::shared_memory}) {
      for (const int world_size : {2, 3, 5}) {
        CAPTURE(name_of(transport));
        CAPTURE(world_size);
        check_all_gather(by(transport), world_size);
      }
    }
    check_all_gather(by(Transport::automatic), 17);  // beyond the mesh
  }

  TEST_CASE("transport: each rank's part of a sum has the sum's bits, in buffers and out of them") {
    for (const Transport transport :
         {Transport::tcp, Transport::unix_socket, Transport::shared_memory}) {
      for (const int world_size : {2, 3, 5}) {
        CAPTURE(name_of(transport));
        CAPTURE(world_size);
        check_reduce_scatter<float>(by(transport), world_size);
      }
      check_reduce_scatter<double>(by(transport), 2);
    }
    check_reduce_scatter<float>(by(Transport::automatic), 17);  // beyond the mesh
  }

  TEST_CASE("transport: a part's sum and its way to all send what a sum on all ranks does") {
    constexpr std::size_t kValues = 1'000'000;
    const std::vector<std::size_t> ends = {kValues / 2, kValues};
    const std::vector<std::size_t> byte_ends = {kValues * 2, kValues * 4};
    for (const Transport transport : {Transport::tcp, Transport::shared_memory}) {
      CAPTURE(name_of(transport));
      run_group(
          2,
          [&](WorkerGroup& group) {
            const auto buffer = group.make_buffer(kValues * sizeof(float), soon());
            const Span<float> values(reinterpret_cast<float*>(buffer.get()), kValues);
            const std::uint64_t start = group.sent_bytes();
            group.all_reduce(values, soon());
            const std::uint64_t whole = group.sent_bytes() - start;
            group.reduce_scatter(values, Span<const std::size_t>(ends), soon());
            group.all_gather(as_writable_bytes(values), Span<const std::size_t>(byte_ends), soon());
            const std::uint64_t halves = group.sent_bytes() - start - whole;
            if (halves > whole + 1000) {
              throw std::runtime_error(text(halves, " bytes in halves, ", whole, " at once"));
            }
          },
          by(transport));
    }
  }

  TEST_CASE("transport: integers in place wrap around as elsewhere") {
    run_group(
        3,
        [](WorkerGroup& group) {
          const auto buffer = group.make_buffer(8000, soon());
          const Span<std::int64_t> values(reinterpret_cast<std::int64_t*>(buffer.get()), 1000);
          std::fill(values.begin(), values.end(), std::int64_t{1} << 62);
          group.all_reduce(values, soon());
          for (const auto value : values) {
            if (value != std::int64_t{-1} * (std::int64_t{1} << 62))
              throw std::runtime_error("sum");
          }
        },
        by(Transport::shared_memory));
  }

  TEST_CASE("transport: a buffer is zeroed, aligned, and outlives its group") {
    for (const Transport transport : {Transport::tcp, Transport::shared_memory}) {
      std::vector<std::shared_ptr<std::byte>> kept(2);
      run_group(
          2,
          [&](WorkerGroup& group) {
            auto& mine = kept[static_cast<std::size_t>(group.rank())];
            mine = group.make_buffer(100'000, soon());
            if (reinterpret_cast<std::uintptr_t>(mine.get()) % 64 != 0) {
              throw std::runtime_error("not aligned");
            }
            for (int i = 0; i < 100'000; ++i) {
              if (mine.get()[i] != std::byte{0}) throw std::runtime_error("not zeroed");
            }
            // One that is given back at once, so that its place may be used again.
            (void)group.make_buffer(100'000, soon());
            std::vector<float> values(25'000, 2.0F);
            group.all_reduce(Span<float>(values), soon());
            if (values[24'999] != 4.0F) throw std::runtime_error("wrong sum");
          },
          by(transport));
      for (const auto& buffer : kept) std::memset(buffer.get(), 1, 100'000);
      CHECK(kept[1].get()[99'999] == std::byte{1});
    }
  }

  TEST_CASE(
      "transport: where one worker cannot share memory, none does, and shm says who and why") {
    for (const int culprit : {0, 2}) {
      std::vector<GroupOptions> options(3, by(Transport::automatic));
      options[static_cast<std::size_t>(culprit)].shared_memory_limit = 1000;
      {
        const CapturedLog log;
        for (const auto& error : join_all(3, options, sum_once)) CHECK(message_of(error) == "");
        CHECK(has(log.text(),
                  "by Unix sockets; they do not share memory: worker/" + std::to_string(culprit)));
      }
      for (auto& option : options) option.transport = Transport::shared_memory;
      for (const auto& error : join_all(3, options, sum_once)) {
        const std::string message = message_of(error);
        CAPTURE(message);
        CHECK(is<ConfigError>(error));
        CHECK(has(message, text("--transport shm: the workers cannot share memory: worker/",
                                culprit, ": ")));
        CHECK(has(message, "are more than the 1000 that may be shared"));
      }
    }
  }

  TEST_CASE("transport: a buffer that one worker cannot map is memory of its own on all") {
    std::vector<GroupOptions> options(3, by(Transport::shared_memory));
    options[1].shared_memory_limit = std::uint64_t{16} << 20;
    const auto errors = join_all(3, options, [](WorkerGroup& group) {
      sum_once(group);  // small enough
      const auto buffer = group.make_buffer(std::size_t{8} << 20, soon());
      const Span<float> values(reinterpret_cast<float*>(buffer.get()), std::size_t{2} << 20);
      std::fill(values.begin(), values.end(), 1.0F);
      group.all_reduce(values, soon());
      for (const float value : values) {
        if (value != 3.0F) throw std::runtime_error("wrong sum");
      }
    });
    for (const auto& error : errors) CHECK(message_of(error) == "");
  }

  TEST_CASE("transport: workers at two addresses do not share memory") {
    for (const Transport transport : {Transport::automatic, Transport::shared_memory}) {
      LoopbackListener listener;
      auto clusters = make_clusters(2, listener);
      for (Cluster& cluster : clusters) cluster.members[1].address = Endpoint{"127.0.0.2", 0};
      const auto errors = try_ranks(2, [&](int rank) {
        WorkerGroup group(clusters[static_cast<std::size_t>(rank)], by(transport));
        group.join({});
        sum_once(group);
        group.close();
      });
      for (const auto& error : errors) {
        const std::string message = message_of(error);
        CAPTURE(message);
        if (transport == Transport::automatic) {
          CHECK(message == "");
        } else {
          CHECK(has(message, "only 1 of the 2 workers are on its machine"));
        }
      }
    }
  }

  TEST_CASE("transport: workers that were given different ones do not start") {
    const auto errors = join_all(2, {by(Transport::tcp), by(Transport::shared_memory)}, sum_once);
    for (const auto& error : errors) {
      CHECK(is<ConfigError>(error));
      CHECK(has(message_of(error), "differ in the setting --transport: 'tcp' on worker/0, 'shm'"));
    }
  }

  TEST_CASE("desync: a buffer is made while others sum, or of another length") {
    const auto errors = try_group(
        3,
        [](WorkerGroup& group) {
          std::vector<float> values(1000);
          group.rank() == 1 ? (void)group.make_buffer(4000, soon())
                            : group.all_reduce(Span<float>(values), soon());
          group.barrier(soon());
        },
        by(Transport::shared_memory));
    for (const auto& error : errors) {
      CAPTURE(message_of(error));
      CHECK(is<DesyncError>(error));
      CHECK(has(message_of(error), "worker/1"));
    }
    const auto lengths = try_group(
        2,
        [](WorkerGroup& group) {
          (void)group.make_buffer(group.rank() == 0 ? 4000 : 400'000, soon());
        },
        by(Transport::shared_memory));
    for (const auto& error : lengths) CHECK(is<DesyncError>(error));
  }
}

}  // namespace transport_test
