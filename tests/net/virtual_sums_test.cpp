// Sums over workers that host virtual replicas: the bits of the sum over all virtual replicas, by
// every transport and algorithm, whatever the number of workers.
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/serial_sum.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"
#include "troupe/distributed/group/tree_cut.h"
#include "troupe/distributed/worker_group.h"

namespace virtual_sums_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

// All of the mantissa in use, so that the order of additions shows.
template <class T>
std::vector<T> leaf(int number, std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto mixed = static_cast<std::uint32_t>((i + 1) * 2654435761U +
                                                  40503U * (1U + static_cast<unsigned>(number)));
    values[i] = static_cast<T>(mixed) / static_cast<T>(3) - static_cast<T>(7e8);
  }
  return values;
}

template <class T>
std::vector<T> sum_of_leaves(const TreeCut::Node& node, std::size_t n) {
  std::vector<std::vector<T>> leaves;
  for (int i = node.begin; i < node.end; ++i) leaves.push_back(leaf<T>(i, n));
  return serial_sum(leaves);
}

// Around the changes of algorithm, by sockets and in shared memory.
const std::vector<std::size_t> kLengths = {1, 77, 1000, 32768, 40001};

template <class T>
void check_sums(int virtual_replicas, int workers, GroupOptions options) {
  options.virtual_replicas = virtual_replicas;
  const TreeCut cut(virtual_replicas, workers);
  run_group(
      workers,
      [&](WorkerGroup& group) {
        const auto buffer = group.make_buffer(kLengths.back() * sizeof(T), soon());
        for (const std::size_t n : kLengths) {
          const std::vector<T> expected = sum_of_leaves<T>({0, virtual_replicas}, n);
          const std::vector<T> mine = sum_of_leaves<T>(cut.node(group.rank()), n);
          std::vector<T> own = mine;
          T* const shared = reinterpret_cast<T*>(buffer.get());
          std::memcpy(shared, mine.data(), n * sizeof(T));
          for (T* const at : {own.data(), shared}) {
            group.all_reduce(Span<T>(at, n), soon());
            if (std::memcmp(at, expected.data(), n * sizeof(T)) == 0) continue;
            throw std::runtime_error(text("wrong bits: ", n, " values"));
          }
        }
      },
      options);
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("virtual sums: the bits do not depend on the number of workers, by every transport") {
    for (const Transport transport :
         {Transport::tcp, Transport::unix_socket, Transport::shared_memory}) {
      for (const auto& [virtual_replicas, workers] : std::vector<std::pair<int, int>>{
               {8, 2}, {8, 3}, {8, 5}, {7, 3}, {7, 4}, {6, 4}, {12, 5}, {64, 7}, {9, 9}}) {
        GroupOptions options = test_options();
        options.transport = transport;
        CAPTURE(name_of(transport));
        CAPTURE(virtual_replicas);
        CAPTURE(workers);
        check_sums<float>(virtual_replicas, workers, options);
      }
    }
  }

  TEST_CASE("virtual sums: by every algorithm") {
    for (const detail::SumRoute route :
         {detail::SumRoute::doubling, detail::SumRoute::direct, detail::SumRoute::two_level}) {
      for (const int workers : {3, 5, 6}) {
        GroupOptions options = test_options();
        options.transport = Transport::tcp;
        options.sum_route = route;
        options.group_size = 2;
        CAPTURE(route);
        CAPTURE(workers);
        check_sums<double>(4 * workers, workers, options);
        if (route != detail::SumRoute::two_level) check_sums<double>(13, workers, options);
      }
    }
  }
}

}  // namespace virtual_sums_test
