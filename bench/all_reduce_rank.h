// One rank of the all-reduce benchmark. Every rank has both engines at once; rounds alternate
// between them, so that whatever else the machine does meets both.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/rank_processes.h"

namespace troupe::bench {

struct AllReducePlan {
  std::vector<std::size_t> sizes;  // bytes, multiples of 4
  int rounds = 0;
  std::chrono::microseconds block{0};  // about how long one engine runs in one round
};

/// Checks the sums of every engine, then measures. For every size an object: "bytes", and by engine
/// ("troupe", "gloo" where there is one, "memcpy": one local copy of as many bytes, on all ranks at
/// once) "repetitions", and "seconds" of one call per round, those of the slowest rank.
/// Collective: yes.  Throws: InternalError when a sum is wrong; NetError.
[[nodiscard]] nlohmann::ordered_json measure_all_reduce(const RankPlace& place,
                                                        const AllReducePlan& plan);

}  // namespace troupe::bench
