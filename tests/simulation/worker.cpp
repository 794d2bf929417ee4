#include "tests/simulation/worker.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "tests/support/eventually.h"
#include "tests/support/serial_sum.h"
#include "tests/support/test_secret.h"
#include "troupe/core/checksum.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/worker_group.h"

namespace troupe::simulation {
namespace {

/// What a call may take beyond its own limit: the verdict that a worker waits for before and after
/// (kVerdictWait, kJoinSlack), and what is on the way.
constexpr Time kSlack = 4 * kSecond;

constexpr int kOwnExitCode = 42;

struct OwnFailure {};

template <class T>
std::vector<T> values_of(std::uint64_t seed, int rank, int deed, std::size_t count) {
  Random random(seed * 1'000'003 + static_cast<std::uint64_t>(rank * 1'009 + deed));
  std::vector<T> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Of many magnitudes, so that another order of additions gives other bits.
    const auto raw = static_cast<std::int64_t>(random.next() >> 20U);
    values.push_back(static_cast<T>(static_cast<T>(raw) / static_cast<T>(1U << (raw & 15))));
  }
  return values;
}

class Worker {
 public:
  Worker(const Plan& plan, Part& part, const std::function<void(int)>& on_deed)
      : plan_(plan), part_(part), on_deed_(on_deed) {}

  void run() {
    Cluster cluster = plan_.cluster;
    cluster.rank = part_.rank;
    cluster.generation = part_.generation;
    GroupOptions options = plan_.options;
    options.secret = testing::test_secret(part_.secret);
    WorkerGroup group(cluster, options);
    on_deed_(-1);
    timed("join", options.start_timeout, [&] { group.join({{"weight float32 [3]"}, {}}); });
    part_.has_joined = true;
    try {
      take_part(group);
    } catch (const OwnFailure&) {
      timed("abort", std::chrono::milliseconds(1'000),
            [&] { group.abort("the hook threw", kOwnExitCode); });
      throw DataError("the hook threw.", "");
    }
  }

 private:
  void take_part(WorkerGroup& group) {
    meet(group);
    for (std::size_t i = 0; i < plan_.deeds.size(); ++i) {
      const int deed = static_cast<int>(i);
      const bool here = plan_.moment.deed == deed;
      pause(plan_.deeds[i].pause, deed);
      on_deed_(deed);
      if (here && part_.mischief == Trouble::hang) hang();
      if (here && part_.mischief == Trouble::failure) throw OwnFailure();
      if (here && part_.mischief == Trouble::desync) {
        part_.mischief = Trouble::none;
        timed("collective", plan_.options.collective_timeout, [&] {
          std::vector<std::byte> odd(3);
          group.broadcast(Span<std::byte>(odd), 0, deadline());
        });
      }
      const Time limit_of_many = plan_.deeds[i].kind == Deed::Kind::gather ? 3 : 1;
      timed("collective", limit_of_many * plan_.options.collective_timeout,
            [&] { part_.results.push_back(perform(group, plan_.deeds[i], deed)); });
    }
    on_deed_(static_cast<int>(plan_.deeds.size()));
    timed("close", plan_.options.close_timeout, [&] { group.close(); });
    part_.is_ok = true;
  }

  // Which processes are this group.
  void meet(WorkerGroup& group) {
    const std::uint64_t mine = static_cast<std::uint64_t>(part_.number);
    timed("collective", plan_.options.collective_timeout, [&] {
      const auto all = group.all_gather(as_bytes(Span<const std::uint64_t>(&mine, 1)), deadline());
      for (const auto& bytes : all) {
        std::uint64_t number = 0;
        if (bytes.size() == sizeof(number)) std::memcpy(&number, bytes.data(), sizeof(number));
        part_.group.push_back(static_cast<int>(number));
      }
    });
  }

  void pause(Time longest, int deed) const {
    if (longest == 0) return;
    Random random(plan_.seed + static_cast<std::uint64_t>(part_.rank * 31 + deed));
    troupe::testing::take_time(std::chrono::nanoseconds(random.between(0, longest)));
  }

  void hang() const {
    troupe::testing::take_time(2 * plan_.options.collective_timeout + std::chrono::seconds(6));
  }

  [[nodiscard]] Deadline deadline() const { return Deadline::in(plan_.options.collective_timeout); }

  template <class Call>
  void timed(const char* what, std::chrono::milliseconds limit, const Call& call) {
    const Time begin = World::the().now();
    const auto check = [&] {
      const Time took = World::the().now() - begin;
      const Time most = std::chrono::nanoseconds(limit).count() + kSlack;
      if (took > most && !part_.was_stopped && part_.violation.empty()) {
        part_.violation = text("its ", what, " took ", static_cast<double>(took) / kSecond,
                               " s, limit ", static_cast<double>(most) / kSecond, " s");
      }
    };
    try {
      call();
    } catch (...) {
      check();
      throw;
    }
    check();
  }

  template <class T>
  std::uint64_t digest_of(const std::vector<T>& values) const {
    return checksum_of(as_bytes(Span<const T>(values.data(), values.size())));
  }

  template <class T>
  std::uint64_t sum(WorkerGroup& group, const Deed& deed, int index, bool in_buffer = false) {
    std::vector<std::vector<T>> operands;
    for (int rank = 0; rank < plan_.workers; ++rank) {
      operands.push_back(values_of<T>(plan_.seed, rank, index, deed.count));
    }
    const std::vector<T> expected = testing::serial_sum(operands);
    std::vector<T> mine = operands[static_cast<std::size_t>(part_.rank)];
    if (in_buffer) {
      const auto buffer = group.make_buffer(deed.count * sizeof(T), deadline());
      T* const at = reinterpret_cast<T*>(buffer.get());
      std::copy(mine.begin(), mine.end(), at);
      group.all_reduce(Span<T>(at, deed.count), deadline());
      std::copy(at, at + deed.count, mine.begin());
    } else {
      group.all_reduce(Span<T>(mine.data(), mine.size()), deadline());
    }
    if (std::memcmp(mine.data(), expected.data(), mine.size() * sizeof(T)) != 0) {
      part_.violation = text("its sum in deed ", index, " is wrong");
    }
    return digest_of(mine);
  }

  std::uint64_t sum_16_bits(WorkerGroup& group, const Deed& deed, int index) {
    std::vector<float> values = values_of<float>(plan_.seed, part_.rank, index, deed.count);
    for (float& value : values) value /= 1e12F;
    std::vector<float> errors(values.size());
    group.all_reduce(Span<float>(values.data(), values.size()),
                     Span<float>(errors.data(), errors.size()), WireType::bfloat16, deadline());
    return digest_of(values);
  }

  std::uint64_t broadcast(WorkerGroup& group, const Deed& deed, int index) {
    const auto wanted = values_of<double>(plan_.seed, deed.root, index, deed.count);
    std::vector<double> values = part_.rank == deed.root ? wanted : std::vector<double>(deed.count);
    group.broadcast(as_writable_bytes(Span<double>(values.data(), values.size())), deed.root,
                    deadline());
    if (values != wanted) part_.violation = text("its broadcast in deed ", index, " is wrong");
    return digest_of(values);
  }

  std::uint64_t collect(WorkerGroup& group, const Deed& deed, int index, bool at_all) {
    const auto bytes_of = [&](int rank) {
      return values_of<std::int64_t>(plan_.seed, rank, index,
                                     deed.count + static_cast<std::size_t>(rank));
    };
    const auto mine = bytes_of(part_.rank);
    const Span<const std::byte> given =
        as_bytes(Span<const std::int64_t>(mine.data(), mine.size()));
    const auto all = at_all ? group.all_gather(given, deadline()) : group.gather(given);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto wanted = bytes_of(static_cast<int>(rank));
      const std::size_t bytes = wanted.size() * sizeof(wanted[0]);
      if (all[rank].size() != bytes || std::memcmp(all[rank].data(), wanted.data(), bytes) != 0) {
        part_.violation = text("what it gathered in deed ", index, " is wrong");
      }
    }
    return 0;
  }

  std::uint64_t perform(WorkerGroup& group, const Deed& deed, int index) {
    switch (deed.kind) {
      case Deed::Kind::sum_float:
        return sum<float>(group, deed, index);
      case Deed::Kind::sum_double:
        return sum<double>(group, deed, index);
      case Deed::Kind::sum_int64:
        return sum<std::int64_t>(group, deed, index);
      case Deed::Kind::sum_in_buffer:
        return sum<float>(group, deed, index, true);
      case Deed::Kind::sum_16_bits:
        return sum_16_bits(group, deed, index);
      case Deed::Kind::broadcast:
        return broadcast(group, deed, index);
      case Deed::Kind::all_gather:
        return collect(group, deed, index, true);
      case Deed::Kind::gather:
        return collect(group, deed, index, false);
      case Deed::Kind::barrier:
        group.barrier(deadline());
        return 0;
      case Deed::Kind::announce:
        group.barrier(deadline(), deed.count);
        return 0;
    }
    return 0;
  }

  const Plan& plan_;
  Part& part_;
  const std::function<void(int)>& on_deed_;
};

}  // namespace

void work(const Plan& plan, Part& part, const std::function<void(int)>& on_deed) {
  try {
    Worker(plan, part, on_deed).run();
  } catch (const Error& error) {
    part.kind = error.kind();
    part.cause = error.cause();
    part.exit_code = error.exit_code();
  } catch (const std::exception& error) {
    part.kind = "unexpected";
    part.cause = error.what();
  }
  part.ended = World::the().now();
  World::the().note(text(part.process->name, part.is_ok ? " is done" : " ends with ", part.kind,
                         " ", part.cause));
}

}  // namespace troupe::simulation
