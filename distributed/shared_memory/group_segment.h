// GroupSegment: the memory that a group shares, as one rank sees it: each rank's part of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "troupe/distributed/shared_memory/shared_segment.h"

namespace troupe {

// What lies in the memory that the workers of one machine share (byte tables: docs/wire.md).
//
// Every rank can write all of it: what a peer has written is compared with what this rank expects,
// and never used as a length, an offset or an address.

inline constexpr std::uint32_t kSegmentMagic = 0x42555254;  // "TRUB", little endian
inline constexpr std::uint32_t kSegmentVersion = 1;
inline constexpr int kMaxSharingRanks = 256;

/// Values of a collective up to here are written beside the entry; see SharedMemoryGroup.
inline constexpr std::size_t kSmallSlotBytes = std::size_t{128} * 1024;
/// Parts of long values are in flight in this many slots: while one is written the one before is
/// summed and the one before that copied out, and the last may still be read by a slower peer.
inline constexpr std::size_t kPartSlots = 4;

/// The words of an entry that all ranks must have alike.
struct EntryWords {
  std::uint8_t operation = 0;
  std::uint8_t dtype = 0;
  std::uint16_t zero = 0;
  std::uint32_t label = 0;
  std::uint64_t sequence = 0;      // of the collective, over links or here
  std::uint64_t total_bytes = 0;   // as the caller gave it
  std::uint64_t links_digest = 0;  // of all collectives over links before
};

/// How a rank says that it is in a collective: one cache line.
struct alignas(64) Entry {
  std::atomic<std::uint32_t> stamp;  // which collective in shared memory, from 1; written last
  std::uint32_t buffer;              // that the values lie in; 0: none
  std::uint64_t offset;              // of the values in that buffer
  EntryWords words;
  std::byte values[16];  // all of them, where they are no more
};
static_assert(sizeof(Entry) == 64);

/// The last collective that a rank has entered over links.
struct alignas(64) LinkRecord {
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> total_bytes;
  std::atomic<std::uint32_t> operation;
  std::atomic<std::uint32_t> dtype;
  std::atomic<std::uint32_t> root;
};

struct RankBlock {
  Entry entries[2];  // by the parity of stamp: a slow peer may still read the one before
  alignas(128) std::atomic<std::uint32_t> steps;  // of long sums, over all collectives
  std::atomic<std::uint32_t> sleepers;            // processes asleep on a word of this block
  alignas(128) LinkRecord over_links;
};

struct alignas(128) SegmentHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t world_size;
  std::uint32_t part_bytes;
};

/// Where everything is, from the world size alone.
struct SegmentLayout {
  explicit SegmentLayout(int world_size_in) : world_size(static_cast<std::size_t>(world_size_in)) {
    constexpr std::size_t kMostSlots = std::size_t{32} * 1024 * 1024;  // of all ranks
    constexpr std::size_t kLongestPart = std::size_t{256} * 1024;      // Source: performance.md
    const std::size_t fair = kMostSlots / (kPartSlots * world_size) / 4096 * 4096;
    part_bytes = std::min(kLongestPart, fair);
  }
  std::size_t world_size;
  std::size_t part_bytes;  // of one slot

  [[nodiscard]] std::size_t block(std::size_t rank) const {
    return sizeof(SegmentHeader) + rank * sizeof(RankBlock);
  }
  [[nodiscard]] std::size_t small_slot(std::size_t rank, std::size_t parity) const {
    return aligned(block(world_size)) + (2 * rank + parity) * kSmallSlotBytes;
  }
  [[nodiscard]] std::size_t part_slot(std::size_t rank, std::size_t slot) const {
    return small_slot(world_size, 0) + (kPartSlots * rank + slot) * part_bytes;
  }
  [[nodiscard]] std::size_t bytes() const { return part_slot(world_size, 0); }

 private:
  static std::size_t aligned(std::size_t at) { return (at + 4095) / 4096 * 4096; }
};

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
    std::byte* const at = segment_->memory().data() + layout_.block(static_cast<std::size_t>(rank));
    return *std::launder(reinterpret_cast<RankBlock*>(at));
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
};

}  // namespace troupe
