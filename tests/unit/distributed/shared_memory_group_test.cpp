// Shared-memory collectives, on threads that share one piece of memory, and what becomes of a peer
// that writes anything it likes.
#include "troupe/distributed/shared_memory/shared_memory_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace {

using namespace troupe;  // NOLINT: a test

Cluster cluster_of(int world_size, int rank) {
  Cluster cluster;
  cluster.members.clear();
  for (int i = 0; i < world_size; ++i) {
    cluster.members.push_back({"worker/" + std::to_string(i), std::nullopt});
  }
  cluster.rank = rank;
  return cluster;
}

/// KiB in huge pages of the mapping of a file that begins at `address`.
long huge_kib_at(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  long kib = -1;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    if (char dash = 0; words >> std::hex >> begin >> dash && dash == '-') {
      here = begin == reinterpret_cast<std::uintptr_t>(address);
    }
    if (here && line.rfind("ShmemPmdMapped:", 0) == 0) kib = std::stol(line.substr(15));
  }
  return kib;
}

// One rank without a network: the chief is never heard, so what the rank finds itself stands.
struct Rank {
  Rank(int world_size, int rank, std::shared_ptr<SharedSegment> segment)
      : state(cluster_of(world_size, rank), troupe::testing::test_options()),
        environment{state,
                    links,
                    {},
                    /*spin=*/std::chrono::microseconds(50),
                    /*arrival_spin=*/std::chrono::microseconds(100),
                    [this](const Failure& failure) { state.fail(failure); },
                    [this](int peer, const std::string& what) {
                      state.fail(peer_lost(state.cluster, peer, what));
                    }},
        group(environment, std::move(segment)) {}
  std::map<int, Link> links;
  GroupState state;
  CallEnvironment environment;
  SharedMemoryGroup group;
};

class Pair {
 public:
  Pair() : segment_(SharedSegment::make(GroupSegment::bytes_for(2))) {
    GroupSegment::lay_out(*segment_, 2);
    for (int rank = 0; rank < 2; ++rank) ranks_[rank] = std::make_unique<Rank>(2, rank, segment_);
  }
  SharedMemoryGroup& operator[](int rank) { return ranks_[rank]->group; }
  /// What rank 1 is to have written.
  RankBlock& block_of_1() {
    std::byte* const at = segment_->memory().data() + SegmentLayout(2).block(1);
    return *reinterpret_cast<RankBlock*>(at);
  }
  /// Rank 0 sums alone, with what stands in rank 1's block; what it throws.
  std::string sum_alone(std::size_t n = 4) {
    std::vector<float> values(n, 1.0F);
    try {
      (*this)[0].all_reduce(as_writable_bytes(Span<float>(values)), sum_of<float>(),
                            Deadline::in(std::chrono::milliseconds(200)));
    } catch (const Error& error) {
      return std::string(error.kind()) + ": " + error.what();
    }
    return "nothing";
  }

 private:
  std::shared_ptr<SharedSegment> segment_;
  std::unique_ptr<Rank> ranks_[2];
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

EntryWords words_of_a_sum(std::uint64_t bytes) {
  EntryWords words;
  words.operation = static_cast<std::uint8_t>(Operation::all_reduce);
  words.dtype = static_cast<std::uint8_t>(DType::float32);
  words.sequence = 1;
  words.total_bytes = bytes;
  return words;
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE(
      "shared memory: two ranks sum, thousands of times, over the wrap of every counter's parity") {
    Pair pair;
    const auto work = [&](int rank) {
      for (int i = 0; i < 3000; ++i) {
        std::vector<float> values(i % 7 == 0 ? 70'000 : 1 + i % 50, static_cast<float>(rank + i));
        pair[rank].all_reduce(as_writable_bytes(Span<float>(values)), sum_of<float>(),
                              Deadline::in(std::chrono::seconds(60)));
        for (const float value : values) {
          if (value != static_cast<float>(1 + 2 * i)) throw std::runtime_error("wrong sum");
        }
      }
    };
    std::thread other([&] { work(1); });
    work(0);
    other.join();
  }

  TEST_CASE(
      "shared memory: entries and records that say nonsense end the wait, and name their rank") {
    SUBCASE("an operation that does not exist") {
      Pair pair;
      pair.block_of_1().entries[1].words = words_of_a_sum(16);
      pair.block_of_1().entries[1].words.operation = 200;
      pair.block_of_1().entries[1].stamp = 1;
      CHECK(has(pair.sum_alone(), "peer-lost: worker/1 is gone: its entry in shared memory"));
    }
    SUBCASE("a type that does not exist") {
      Pair pair;
      pair.block_of_1().entries[1].words = words_of_a_sum(16);
      pair.block_of_1().entries[1].words.dtype = 99;
      pair.block_of_1().entries[1].stamp = 1;
      CHECK(has(pair.sum_alone(), "peer-lost: worker/1 is gone: its entry in shared memory"));
    }
    SUBCASE("a length that is another") {
      Pair pair;
      pair.block_of_1().entries[1].words = words_of_a_sum(std::uint64_t{1} << 60);
      pair.block_of_1().entries[1].stamp = 1;
      CHECK(has(pair.sum_alone(), "desync: worker/0 is in all_reduce #1 of 16 bytes"));
    }
    SUBCASE("a stamp far ahead") {
      Pair pair;
      pair.block_of_1().entries[1].stamp = 0x7fff0000;
      CHECK(has(pair.sum_alone(), "peer-lost: worker/1"));
    }
    SUBCASE("a stamp behind: it has not come") {
      Pair pair;
      pair.block_of_1().entries[1].stamp = 0x80000001;
      const std::string message = pair.sum_alone();
      CHECK(has(message, "timeout: all_reduce #1 of 16 bytes of float32"));
      CHECK(has(message, "worker/0 still waits for worker/1 (limit 0.2 s)"));
    }
    SUBCASE("a record of a collective over links") {
      Pair pair;
      pair.block_of_1().over_links.operation = static_cast<std::uint32_t>(Operation::broadcast);
      pair.block_of_1().over_links.sequence = 1;
      CHECK(has(pair.sum_alone(), "desync: worker/0 is in all_reduce #1"));
    }
    SUBCASE("a record full of nonsense") {
      Pair pair;
      pair.block_of_1().over_links.operation = 77777;
      pair.block_of_1().over_links.dtype = 88888;
      pair.block_of_1().over_links.sequence = UINT64_MAX;
      CHECK(has(pair.sum_alone(), "desync: worker/0 is in all_reduce #1"));
    }
    SUBCASE("a buffer that rank 0 has not: it is no address") {
      Pair pair;
      pair.block_of_1().entries[1].words = words_of_a_sum(16);
      pair.block_of_1().entries[1].buffer = 4711;
      pair.block_of_1().entries[1].offset = std::uint64_t{1} << 60;
      pair.block_of_1().entries[1].stamp = 1;
      // Rank 1 never makes the steps that would follow.
      CHECK(has(pair.sum_alone(), "timeout: all_reduce #1"));
    }
    SUBCASE("a long sum whose steps never come") {
      Pair pair;
      pair.block_of_1().entries[1].words = words_of_a_sum(4'000'000);
      pair.block_of_1().entries[1].stamp = 1;
      CHECK(has(pair.sum_alone(1'000'000), "timeout: all_reduce #1 of 4000000 bytes"));
    }
  }

  TEST_CASE("shared segment: only sealed memory of the right length is taken") {
    const auto made = SharedSegment::make(8192);
    CHECK(made->memory().size() == 8192);
    CHECK(SharedSegment::adopt(UniqueFd(::dup(made->fd())), 8192)->memory().size() == 8192);
    CHECK_THROWS_AS((void)SharedSegment::adopt(UniqueFd(::dup(made->fd())), 4096), DataError);
    // A peer could cut a file without seals while it is in use: every access a SIGBUS.
    const int loose = ::memfd_create("loose", MFD_CLOEXEC);
    REQUIRE(::ftruncate(loose, 8192) == 0);
    CHECK_THROWS_AS((void)SharedSegment::adopt(UniqueFd(loose), 8192), DataError);
    CHECK(::ftruncate(made->fd(), 0) != 0);
    CHECK_THROWS_AS((void)SharedSegment::adopt(UniqueFd(::open("/dev/null", O_RDWR)), 8192),
                    DataError);
    CHECK_THROWS_AS((void)SharedSegment::make(UINT64_MAX), EnvironmentError);
  }

  TEST_CASE("shared segment: lies in huge pages, where the kernel has them") {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    const std::size_t bytes = 2 * kHuge + 100;
    const auto made = SharedSegment::make(bytes);
    const auto handed = SharedSegment::adopt(UniqueFd(::dup(made->fd())), bytes);
    const long in_huge_pages = huge_kib_at(made->memory().data());
    made->memory()[bytes - 1] = std::byte{7};
    CHECK(handed->memory()[bytes - 1] == std::byte{7});
    CHECK(handed->memory()[0] == std::byte{0});
    constexpr int kCollapse = 25;  // MADV_COLLAPSE
    if (::madvise(made->memory().data(), 2 * kHuge, kCollapse) != 0) {
      MESSAGE("this kernel gives files no huge pages");
      return;
    }
    CHECK(in_huge_pages == 4096);
    CHECK(huge_kib_at(handed->memory().data()) == 4096);
  }

  TEST_CASE("shared memory: memory that was laid out for another world size is refused") {
    const auto segment = SharedSegment::make(GroupSegment::bytes_for(2));
    GroupSegment::lay_out(*segment, 2);
    CHECK_THROWS_AS(Rank(3, 0, segment), DataError);
  }
}
