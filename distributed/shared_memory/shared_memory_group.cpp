// The three ways in which workers that share memory sum. Each adds along the same tree, so the bits
// are those of every other way.
//   small      every rank writes its values beside its entry and adds up those of all
//   by parts   values go through slots, part by part: in step s a rank writes part s, adds its
//              share of part s-1 over all ranks, and copies the others' shares of part s-2
//   in place   values lie in a buffer that all have mapped: a rank adds its share of all copies and
//              writes it into all of them; nothing is copied before or after
#include "troupe/distributed/shared_memory/shared_memory_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/distributed/group/topology.h"

namespace troupe {
namespace {

// Shorter values are written out faster than it takes to learn that all have them in place.
constexpr std::size_t kInPlaceMinBytes = 512;
// Two reads of all values by every rank cost more than the two more meetings of shares.
// Source: docs/performance.md.
constexpr std::size_t kSmallMaxReads = kSmallSlotBytes;
// As long as both its reads and its writes stay in the level-2 cache.
constexpr std::size_t kInPlaceBlock = std::size_t{32} * 1024;
constexpr std::size_t kShortestPart = std::size_t{128} * 1024;  // Source: docs/performance.md
constexpr std::size_t kAlignment = 64;

bool is_small(std::size_t bytes, int world_size) {
  return bytes * static_cast<std::size_t>(world_size - 1) <= kSmallMaxReads;
}

// A quarter, so that writing, adding and reading overlap; as long as a slot at most.
std::size_t part_bytes_of(std::size_t bytes, std::size_t slot_bytes) {
  const std::size_t quarter = (bytes / 4 + kAlignment - 1) / kAlignment * kAlignment;
  return std::min(std::max(quarter, kShortestPart), slot_bytes);
}

}  // namespace

SharedMemoryGroup::SharedMemoryGroup(CallEnvironment& environment,
                                     std::shared_ptr<SharedSegment> segment)
    : segment_(std::move(segment), environment.state.cluster.world_size()),
      rank_(environment.state.cluster.rank),
      world_size_(segment_.world_size()),
      cut_(environment.state.cut),
      meeting_(environment, segment_),
      operands_(static_cast<std::size_t>(world_size_)) {}

void SharedMemoryGroup::meet(Operation operation, DType dtype, std::uint64_t total_bytes,
                             const Deadline& deadline) {
  meeting_.begin(operation, dtype, total_bytes, deadline);
  enter({}, {});
}

void SharedMemoryGroup::enter(const Place& place, Span<const std::byte> small) {
  meeting_.enter(place.buffer, place.offset, small);
  written_bytes_ += sizeof(Entry) + small.size();
  meeting_.await_entries();
}

void SharedMemoryGroup::all_reduce(Span<std::byte> values, const Reduction& sum,
                                   const Deadline& deadline) {
  meeting_.begin(Operation::all_reduce, sum.dtype, values.size(), deadline);
  const bool small = is_small(values.size(), world_size_);
  const Place place = values.size() < kInPlaceMinBytes ? Place{} : place_of(values);
  const bool by_parts = !small && place.buffer == 0;
  if (by_parts) {
    const std::size_t first = part_bytes_of(values.size(), segment_.part_bytes());
    write_part(values.subspan(0, std::min(first, values.size())), next_slot_);
  }
  enter(place,
        small && place.buffer == 0 ? Span<const std::byte>(values) : Span<const std::byte>());
  const Agreement all = agreement(place);
  if (all == Agreement::in_place) {
    const Span<std::byte> share = slice_of(values, world_size_, rank_);
    const auto before = static_cast<std::size_t>(share.data() - values.data());
    return add_in_place(place, before, share, sum, Readers::all);
  }
  if (all == Agreement::in_slots && small) return add_small(values, sum);
  add_by_parts(values, sum, all == Agreement::in_slots ? FirstPart::written : FirstPart::to_write);
}

bool SharedMemoryGroup::reduce_scatter(Span<std::byte> values,
                                       const std::vector<Span<std::byte>>& parts,
                                       const Reduction& sum, const Deadline& deadline) {
  meeting_.begin(Operation::reduce_scatter, sum.dtype, values.size(), deadline);
  const Place place = place_of(values);
  enter(place, {});
  if (agreement(place) != Agreement::in_place) return false;
  const Span<std::byte> own = parts[static_cast<std::size_t>(rank_)];
  const auto before = static_cast<std::size_t>(own.data() - values.data());
  add_in_place(place, before, own, sum, Readers::none);
  return true;
}

// Nobody else writes this rank's part, and no rank reads the others' before its last step.
bool SharedMemoryGroup::all_gather(Span<std::byte> values,
                                   const std::vector<Span<std::byte>>& parts,
                                   const Deadline& deadline) {
  meeting_.begin(Operation::all_gather, DType::bytes, values.size(), deadline);
  const Place place = place_of(values);
  enter(place, {});
  if (agreement(place) != Agreement::in_place) return false;
  const Span<std::byte> own = parts[static_cast<std::size_t>(rank_)];
  const auto offset = static_cast<std::size_t>(own.data() - values.data());
  for (int peer = 0; peer < world_size_ && !own.empty(); ++peer) {
    if (peer == rank_) continue;
    std::byte* const theirs = place.memory + place.stride * static_cast<std::size_t>(peer);
    std::memcpy(theirs + offset, own.data(), own.size());
  }
  written_bytes_ += own.size() * static_cast<std::size_t>(world_size_ - 1);
  meeting_.finish_step();
  meeting_.await_steps();
  return true;
}

SharedMemoryGroup::Agreement SharedMemoryGroup::agreement(const Place& place) const {
  bool alike = true;
  bool none = place.buffer == 0;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    const Entry& theirs = meeting_.entry(peer);
    alike = alike && theirs.buffer == place.buffer && theirs.offset == place.offset;
    none = none && theirs.buffer == 0;
  }
  if (none) return Agreement::in_slots;
  return alike ? Agreement::in_place : Agreement::mixed;
}

std::shared_ptr<std::byte> SharedMemoryGroup::add_buffer(std::shared_ptr<SharedSegment> segment,
                                                         std::size_t stride) {
  std::byte* const memory = segment->memory().data();
  std::byte* const mine = memory + stride * static_cast<std::size_t>(rank_);
  buffers_.push_back({next_buffer_++, segment, memory, mine, stride});
  return {std::move(segment), mine};
}

// A range that is no longer in use may be other memory by now.
SharedMemoryGroup::Place SharedMemoryGroup::place_of(Span<std::byte> values) {
  const auto address = reinterpret_cast<std::uintptr_t>(values.data());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = buffers_[i];
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer.mine);
    if (address < begin || address + values.size() > begin + buffer.stride) continue;
    if (!buffer.segment.expired()) {
      const std::uint64_t offset = address - begin;
      return {buffer.id, offset, buffer.memory + offset, buffer.stride};
    }
    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  return {};
}

void SharedMemoryGroup::add_small(Span<std::byte> values, const Reduction& sum) {
  if (values.empty()) return;
  for (int rank = 0; rank < world_size_; ++rank) {
    operands_[static_cast<std::size_t>(rank)] = meeting_.small_values(rank, values.size());
  }
  operands_[static_cast<std::size_t>(rank_)] = values.data();
  add_along_tree(values.data(), operands_, values.size() / sum.element_bytes, sum, cut_);
}

void SharedMemoryGroup::add_in_place(const Place& place, std::size_t before, Span<std::byte> share,
                                     const Reduction& sum, Readers readers) {
  const auto copy_of = [&](int rank) {
    return place.memory + place.stride * static_cast<std::size_t>(rank);
  };
  for (std::size_t done = 0; done < share.size(); done += kInPlaceBlock) {
    const Span<std::byte> block = share.subspan(done, std::min(kInPlaceBlock, share.size() - done));
    const std::size_t offset = before + done;
    for (int rank = 0; rank < world_size_; ++rank) {
      operands_[static_cast<std::size_t>(rank)] = copy_of(rank) + offset;
    }
    add_along_tree(block.data(), operands_, block.size() / sum.element_bytes, sum, cut_);
    for (int peer = 0; peer < world_size_ && readers == Readers::all; ++peer) {
      if (peer != rank_) std::memcpy(copy_of(peer) + offset, block.data(), block.size());
    }
  }
  if (readers == Readers::all)
    written_bytes_ += share.size() * static_cast<std::size_t>(world_size_ - 1);
  meeting_.finish_step();
  meeting_.await_steps();
}

// Where the first part is written, the entry told all that this rank has made its first step. Four
// slots are enough: before a rank writes part s, all have ended step s-2, and so have read part s-4
// out of the slot.
void SharedMemoryGroup::add_by_parts(Span<std::byte> values, const Reduction& sum,
                                     FirstPart first) {
  const std::size_t length = part_bytes_of(values.size(), segment_.part_bytes());
  const std::size_t parts = (values.size() + length - 1) / length;
  const auto part = [&](std::size_t index) {
    const std::size_t begin = index * length;
    return values.subspan(begin, std::min(length, values.size() - begin));
  };
  for (std::size_t step = first == FirstPart::written ? 1 : 0; step < parts + 2; ++step) {
    if (step < parts) write_part(part(step), next_slot_ + step);
    meeting_.await_steps();
    if (step >= 1 && step <= parts) add_share(part(step - 1), next_slot_ + step - 1, sum);
    if (step >= 2) read_part(part(step - 2), next_slot_ + step - 2);
    if (step <= parts) meeting_.finish_step();
  }
  next_slot_ = (next_slot_ + parts) % kPartSlots;
}

// All but this rank's own share, which nobody else reads.
void SharedMemoryGroup::write_part(Span<std::byte> part, std::size_t slot) {
  std::byte* const into = segment_.part_slot(rank_, slot);
  const Span<std::byte> own = slice_of(part, world_size_, rank_);
  const auto before = static_cast<std::size_t>(own.begin() - part.begin());
  const auto until = static_cast<std::size_t>(own.end() - part.begin());
  std::memcpy(into, part.data(), before);
  std::memcpy(into + until, own.end(), part.size() - until);
  written_bytes_ += part.size();
}

void SharedMemoryGroup::add_share(Span<std::byte> part, std::size_t slot, const Reduction& sum) {
  const Span<std::byte> share = slice_of(part, world_size_, rank_);
  if (share.empty()) return;
  const auto offset = static_cast<std::size_t>(share.begin() - part.begin());
  for (int rank = 0; rank < world_size_; ++rank) {
    operands_[static_cast<std::size_t>(rank)] = segment_.part_slot(rank, slot) + offset;
  }
  operands_[static_cast<std::size_t>(rank_)] = share.data();
  add_along_tree(share.data(), operands_, share.size() / sum.element_bytes, sum, cut_);
  std::memcpy(segment_.part_slot(rank_, slot) + offset, share.data(), share.size());
}

void SharedMemoryGroup::read_part(Span<std::byte> part, std::size_t slot) {
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    const Span<std::byte> share = slice_of(part, world_size_, peer);
    const auto offset = share.begin() - part.begin();
    if (!share.empty())
      std::memcpy(share.data(), segment_.part_slot(peer, slot) + offset, share.size());
  }
}

}  // namespace troupe
