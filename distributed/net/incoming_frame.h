// IncomingFrame: a frame as it comes over one connection, checked before memory is taken for it.
//
// Bytes in, frames out: no socket, no time. Everything that comes in is hostile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/core/checksum.h"
#include "troupe/distributed/net/frame.h"

namespace troupe {

/// Largest payloads of bulk frames on one connection, in bytes.
struct BulkLimits {
  std::uint64_t rows = 0;   // of push and values
  std::uint64_t state = 0;  // of state
};

class IncomingFrame {
 public:
  /// `sums_bulk`: bulk payloads have a checksum. Control frames always have.
  explicit IncomingFrame(bool sums_bulk) : sums_bulk_(sums_bulk) {}

  /// Lets bulk frames in.
  void set_limits(const BulkLimits& limits) { limits_ = limits; }
  [[nodiscard]] const BulkLimits& limits() const { return limits_; }

  /// Where the next bytes belong; empty where the frame is complete.
  [[nodiscard]] Span<std::byte> room();
  /// That many bytes of room() have come. Not `none`: the frame is refused, and where the next one
  /// begins is not known; bad_checksum: it is not what was sent.
  [[nodiscard]] FrameFault take(std::size_t bytes);
  [[nodiscard]] bool complete() const { return bytes_ == kFrameHeaderBytes + payload_.size(); }

  /// Of a complete frame; of a refused one only its version.
  [[nodiscard]] const FrameHeader& header() const { return header_; }
  /// The payload of a complete frame; the next one begins.
  [[nodiscard]] std::vector<std::byte> finish();
  /// Memory of a bulk payload that is needed no more: one to come is put there. Payloads that
  /// differ a little in length, each in memory of its own, would leave the heap in pieces.
  void reuse(std::vector<std::byte> memory) { spare_ = std::move(memory); }

 private:
  [[nodiscard]] FrameFault check_header();

  const bool sums_bulk_;
  BulkLimits limits_;
  bool is_first_ = true;  // of its connection
  std::array<std::byte, kFrameHeaderBytes> head_{};
  FrameHeader header_;
  std::vector<std::byte> payload_;
  std::vector<std::byte> spare_;
  std::size_t bytes_ = 0;  // of head and payload, so far
  Checksum checksum_;      // of what has come of a bulk payload
};

}  // namespace troupe
