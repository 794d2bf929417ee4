// Outcomes: how far a worker has come in its group's sequence of transactions, and the outcome of
// the last one that it has completed (elastic_group.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/span.h"
#include "troupe/distributed/worker_group.h"

namespace troupe {

class Outcomes {
 public:
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  [[nodiscard]] const std::vector<std::byte>& last() const { return last_; }

  /// A transaction is complete.
  void add(Span<const std::byte> outcome);
  /// Where a round begins: every worker comes as far as the one that has come farthest. `holds`:
  /// this worker holds the run's state, so it is at most one transaction behind; others adopt the
  /// number. Shapes: outcomes of WorkerGroup::kMaxGatherBytes at most.
  /// Collective: yes.  Throws: as WorkerGroup::all_gather.
  void exchange(WorkerGroup& group, bool holds, const Deadline& deadline);

 private:
  std::uint64_t completed_ = 0;
  std::vector<std::byte> last_;
};

}  // namespace troupe
