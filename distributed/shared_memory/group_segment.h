// GroupSegment: the memory that a group shares, as one rank sees it: who has which part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/shared_memory/segment_layout.h"
#include "distributed/shared_memory/shared_segment.h"

namespace troupe {

class GroupSegment {
 public:
  [[nodiscard]] static std::uint64_t bytes_for(int world_size) {
    return SegmentLayout(world_size).bytes();
  }
  /// To be called on rank 0 before the others are handed the segment.
  static void lay_out(SharedSegment& segment, int world_size);

  /// `segment` has bytes_for(world_size) bytes.
  /// Throws: DataError when rank 0 has laid out something else.
  GroupSegment(std::shared_ptr<SharedSegment> segment, int world_size);

  [[nodiscard]] int world_size() const { return static_cast<int>(layout_.world_size); }
  /// Of one slot.
  [[nodiscard]] std::size_t part_bytes() const { return layout_.part_bytes; }
  [[nodiscard]] RankBlock& block(int rank) const {
    return *blocks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::byte* small_slot(int rank, std::size_t parity) const {
    return segment_->memory().data() + layout_.small_slot(static_cast<std::size_t>(rank), parity);
  }
  [[nodiscard]] std::byte* part_slot(int rank, std::size_t slot) const {
    return segment_->memory().data() +
           layout_.part_slot(static_cast<std::size_t>(rank), slot % kPartSlots);
  }

 private:
  const std::shared_ptr<SharedSegment> segment_;
  const SegmentLayout layout_;
  std::vector<RankBlock*> blocks_;  // by rank
};

}  // namespace troupe
