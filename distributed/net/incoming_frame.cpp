#include "troupe/distributed/net/incoming_frame.h"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMostRoom = std::size_t{1} << 20;

}  // namespace

Span<std::byte> IncomingFrame::room() {
  if (bytes_ < kFrameHeaderBytes) return {head_.data() + bytes_, kFrameHeaderBytes - bytes_};
  const std::size_t from = bytes_ - kFrameHeaderBytes;
  return {payload_.data() + from, std::min(kMostRoom, payload_.size() - from)};
}

FrameFault IncomingFrame::take(std::size_t bytes) {
  const bool is_payload = bytes_ >= kFrameHeaderBytes;
  // While the bytes are still in the cache. Control frames are short, and checked when whole.
  if (is_payload && is_bulk(header_.type) && sums_bulk_) {
    checksum_.add({room().data(), bytes});
  }
  bytes_ += bytes;
  if (bytes_ < kFrameHeaderBytes) return FrameFault::none;
  if (!is_payload) {
    const FrameFault fault = check_header();
    if (fault != FrameFault::none) return fault;
    const std::uint64_t needed = header_.payload_bytes;  // bounded by type and limits
    if (is_bulk(header_.type) && spare_.capacity() >= needed) payload_.swap(spare_);
    payload_.resize(needed);
  }
  if (!complete() || payload_.empty()) return FrameFault::none;
  if (!is_bulk(header_.type)) checksum_.add(Span<const std::byte>(payload_));
  return checksum_.take() == header_.payload_checksum ? FrameFault::none : FrameFault::bad_checksum;
}

// Also what decode_frame cannot know: which types a connection carries, and how large.
FrameFault IncomingFrame::check_header() {
  const bool is_first = std::exchange(is_first_, false);
  const FrameFault fault = decode_frame({head_.data(), head_.size()}, header_);
  // A peer that began well does not change its protocol: its bytes were changed on the way.
  if (is_damage(fault) && !is_first) return FrameFault::bad_checksum;
  if (fault != FrameFault::none) return fault;
  if (header_.type == FrameType::data) return FrameFault::bad_enum;
  if (!is_bulk(header_.type)) return FrameFault::none;
  const bool is_state = header_.type == FrameType::state;
  const std::uint64_t limit = is_state ? limits_.state : limits_.rows;
  return header_.payload_bytes <= limit ? FrameFault::none : FrameFault::too_long;
}

std::vector<std::byte> IncomingFrame::finish() {
  bytes_ = 0;
  return std::exchange(payload_, {});
}

}  // namespace troupe
