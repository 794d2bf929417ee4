#include "troupe/distributed/shared_memory/group_segment.h"

#include <cstring>
#include <utility>

#include "troupe/core/error.h"

namespace troupe {

void GroupSegment::lay_out(SharedSegment& segment, int world_size) {
  const SegmentLayout layout(world_size);
  std::byte* const memory = segment.memory().data();
  new (memory) SegmentHeader{kSegmentMagic, kSegmentVersion, static_cast<std::uint32_t>(world_size),
                             static_cast<std::uint32_t>(layout.part_bytes)};
  for (std::size_t rank = 0; rank < layout.world_size; ++rank) {
    new (memory + layout.block(rank)) RankBlock{};
  }
}

GroupSegment::GroupSegment(std::shared_ptr<SharedSegment> segment, int world_size)
    : segment_(std::move(segment)), layout_(world_size) {
  SegmentHeader header{};
  std::memcpy(&header, segment_->memory().data(), sizeof(header));
  if (segment_->memory().size() != layout_.bytes() || header.magic != kSegmentMagic ||
      header.version != kSegmentVersion || header.world_size != layout_.world_size ||
      header.part_bytes != layout_.part_bytes) {
    throw DataError("the shared memory is laid out in another way.",
                    "run the same build of Troupe on every worker.");
  }
}

}  // namespace troupe
