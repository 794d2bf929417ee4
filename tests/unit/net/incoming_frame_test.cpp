// What is refused of a frame that comes over a connection, and when: before memory is taken for it.
#include "troupe/distributed/net/incoming_frame.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/checksum.h"

namespace incoming_frame_test {

namespace {

using namespace troupe;  // NOLINT: a test
using Bytes = std::vector<std::byte>;

constexpr BulkLimits kLimits{1000, 2000};

Bytes header_of(FrameType type, std::uint64_t payload_bytes, std::uint32_t payload_checksum) {
  FrameHeader header;
  header.type = type;
  header.payload_bytes = payload_bytes;
  header.payload_checksum = payload_checksum;
  const auto head = encode_frame(header);
  return {head.begin(), head.end()};
}

/// A whole frame, with the right checksum of `payload`.
Bytes frame_of(FrameType type, const Bytes& payload) {
  const Span<const std::byte> body(payload);
  const std::uint32_t checksum = checksum_of(body);
  Bytes frame = header_of(type, payload.size(), checksum);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

Bytes flipped(Bytes bytes, std::size_t at) {
  bytes[at] ^= std::byte{4};
  return bytes;
}

/// Hands over all of `bytes`, in pieces; the first fault.
FrameFault take(IncomingFrame& incoming, const Bytes& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Span<std::byte> room = incoming.room();
    REQUIRE_FALSE(room.empty());
    const std::size_t count = std::min({room.size(), bytes.size() - at, std::size_t{37}});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
    const FrameFault fault = incoming.take(count);
    if (fault != FrameFault::none) return fault;
    at += count;
  }
  return FrameFault::none;
}

/// Of a header alone, on a connection that lets bulk frames in.
FrameFault announced(FrameType type, std::uint64_t payload_bytes) {
  IncomingFrame incoming(/*sums_bulk=*/true);
  incoming.set_limits(kLimits);
  return take(incoming, header_of(type, payload_bytes, 1));
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("incoming frame: a bulk frame's length is held against its connection's limit") {
    for (const FrameType type : {FrameType::push, FrameType::values, FrameType::state}) {
      CAPTURE(static_cast<int>(type));
      const std::uint64_t limit = type == FrameType::state ? kLimits.state : kLimits.rows;
      CHECK(announced(type, limit) == FrameFault::none);
      CHECK(announced(type, limit + 1) == FrameFault::too_long);
      CHECK(announced(type, max_payload_bytes(type)) == FrameFault::too_long);
      IncomingFrame closed(/*sums_bulk=*/true);  // until it is given limits
      CHECK(take(closed, header_of(type, 1, 1)) == FrameFault::too_long);
    }
    CHECK(announced(FrameType::data, 0) == FrameFault::bad_enum);  // travels over links
  }

  TEST_CASE("incoming frame: a changed payload is refused when it is whole") {
    const Bytes payload(900, std::byte{7});
    for (const FrameType type : {FrameType::push, FrameType::report}) {
      const Bytes good = frame_of(type, payload);
      for (const std::size_t at : {std::size_t{0}, std::size_t{450}, payload.size() - 1}) {
        CAPTURE(at);
        IncomingFrame incoming(/*sums_bulk=*/true);
        incoming.set_limits(kLimits);
        CHECK(take(incoming, good) == FrameFault::none);
        CHECK(incoming.finish() == payload);
        CHECK(take(incoming, flipped(good, kFrameHeaderBytes + at)) == FrameFault::bad_checksum);
      }
    }
  }

  TEST_CASE("incoming frame: any changed bit of a later header is damage, not another protocol") {
    const Bytes good = frame_of(FrameType::heartbeat, {});
    for (std::size_t at = 0; at < kFrameHeaderBytes; ++at) {
      CAPTURE(at);
      IncomingFrame incoming(/*sums_bulk=*/true);
      CHECK(take(incoming, good) == FrameFault::none);
      static_cast<void>(incoming.finish());
      CHECK(take(incoming, flipped(good, at)) == FrameFault::bad_checksum);
    }
    IncomingFrame first(/*sums_bulk=*/true);  // of one that may be no process of ours
    CHECK(take(first, flipped(good, 4)) == FrameFault::bad_version);
  }

  TEST_CASE("incoming frame: a bulk payload takes the memory of one that is needed no more") {
    IncomingFrame incoming(/*sums_bulk=*/true);
    incoming.set_limits(kLimits);
    const auto received = [&](FrameType type, const Bytes& payload) {
      CHECK(take(incoming, frame_of(type, payload)) == FrameFault::none);
      Bytes message = incoming.finish();
      CHECK(message == payload);
      return message;
    };
    Bytes first = received(FrameType::push, Bytes(900, std::byte{7}));
    const std::byte* const memory = first.data();
    incoming.reuse(std::move(first));
    CHECK(received(FrameType::report, Bytes(100, std::byte{5})).data() != memory);
    Bytes shorter = received(FrameType::push, Bytes(850, std::byte{6}));
    CHECK(shorter.data() == memory);
    CHECK(received(FrameType::push, Bytes(800, std::byte{4})).data() != memory);  // still in use
    incoming.reuse(std::move(shorter));
    CHECK(received(FrameType::push, Bytes(950, std::byte{3})).data() != memory);  // does not fit
  }
}

}  // namespace incoming_frame_test
