// SharedMemoryGroup: collectives of workers that share memory.
//
// Every rank writes its values into its own part of the segment and waits for the others to have
// written theirs (meeting.h); the sums are the same as over links, bit for bit.
//
// Words: a *part* is what of long values goes through one slot at a time; a rank's *share* is what
// it sums of a part. Thread rule: the thread that calls collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/span.h"
#include "troupe/distributed/collectives/reduction.h"
#include "troupe/distributed/shared_memory/meeting.h"

namespace troupe {

class SharedMemoryGroup {
 public:
  /// `segment` was laid out by GroupSegment::lay_out(); `environment` outlives this object.
  /// Throws: DataError when rank 0 has laid out something else.
  SharedMemoryGroup(CallEnvironment& environment, std::shared_ptr<SharedSegment> segment);

  /// Records that this worker enters the collective over links that `header` describes.
  void record(const FrameHeader& header) { meeting_.record(header); }
  /// Returns when every rank has entered the same: a barrier.  Throws: as a collective.
  void meet(Operation operation, DType dtype, std::uint64_t total_bytes, const Deadline& deadline);
  /// As WorkerGroup::all_reduce.
  void all_reduce(Span<std::byte> values, const Reduction& sum, const Deadline& deadline);
  /// As WorkerGroup::reduce_scatter of `parts` of the values, by rank. False, on every rank: the
  /// values do not lie in a buffer on all of them, and nothing has moved.
  [[nodiscard]] bool reduce_scatter(Span<std::byte> values,
                                    const std::vector<Span<std::byte>>& parts, const Reduction& sum,
                                    const Deadline& deadline);
  /// As WorkerGroup::all_gather of `parts` of the values, by rank. False, on every rank: the values
  /// do not lie in a buffer on all of them, and nothing has moved.
  [[nodiscard]] bool all_gather(Span<std::byte> values, const std::vector<Span<std::byte>>& parts,
                                const Deadline& deadline);

  /// Memory of `stride` bytes per rank that all have mapped; returns this rank's. Every rank calls
  /// this with the same segments in the same order.
  [[nodiscard]] std::shared_ptr<std::byte> add_buffer(std::shared_ptr<SharedSegment> segment,
                                                      std::size_t stride);
  /// What this rank has written for others to read.
  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  struct Buffer {
    std::uint32_t id;
    std::weak_ptr<SharedSegment> segment;  // gone when nothing here uses it any more
    std::byte* memory;                     // rank 0's
    std::byte* mine;
    std::size_t stride;
  };
  struct Place {
    std::uint32_t buffer = 0;
    std::uint64_t offset = 0;
    std::byte* memory = nullptr;  // of rank 0's copy of the values
    std::size_t stride = 0;
  };
  enum class Agreement { in_place, in_slots, mixed };
  /// To whom a share's sums are written beside its owner.
  enum class Readers { all, none };

  void enter(const Place& place, Span<const std::byte> small);
  [[nodiscard]] Agreement agreement(const Place& place) const;
  [[nodiscard]] Place place_of(Span<std::byte> values);
  void add_small(Span<std::byte> values, const Reduction& sum);
  /// Adds `share`, which begins `before` bytes after the place.
  void add_in_place(const Place& place, std::size_t before, Span<std::byte> share,
                    const Reduction& sum, Readers readers);
  /// Where parts of long values begin: the entry told whether the first is written already.
  enum class FirstPart { to_write, written };
  void add_by_parts(Span<std::byte> values, const Reduction& sum, FirstPart first);
  void write_part(Span<std::byte> part, std::size_t slot);
  void add_share(Span<std::byte> part, std::size_t slot, const Reduction& sum);
  void read_part(Span<std::byte> part, std::size_t slot);

  GroupSegment segment_;
  const int rank_;
  const int world_size_;
  const TreeCut& cut_;  // the order of sums
  Meeting meeting_;
  std::vector<const std::byte*> operands_;  // by rank; working memory
  std::vector<Buffer> buffers_;
  std::uint32_t next_buffer_ = 1;
  std::size_t next_slot_ = 0;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace troupe
