#include "troupe/distributed/net/frame.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/checksum.h"

namespace frame_test {

namespace {

using troupe::decode_frame;
using troupe::encode_frame;
using troupe::FrameFault;
using troupe::FrameHeader;
using troupe::FrameType;
using troupe::kFrameHeaderBytes;
using Bytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeader sample() {
  FrameHeader header;
  header.type = FrameType::data;
  header.operation = troupe::Operation::broadcast;
  header.dtype = troupe::DType::float32;
  header.rank = 2;
  header.root = 1;
  header.generation = 0x0102030405060708;
  header.sequence = 41;
  header.total_bytes = 4000;
  header.payload_bytes = 0x1234;
  return header;
}

FrameFault decode(const Bytes& bytes) {
  FrameHeader ignored;
  return decode_frame({bytes.data(), bytes.size()}, ignored);
}

// Writes the checksum that belongs to the other bytes, as an attacker would.
Bytes sealed(Bytes bytes) {
  const std::uint32_t checksum = troupe::checksum_of({bytes.data(), 60});
  for (std::size_t i = 0; i < 4; ++i) bytes[60 + i] = static_cast<std::byte>(checksum >> (8 * i));
  return bytes;
}

Bytes changed(std::size_t at, std::uint8_t value) {
  Bytes bytes = encode_frame(sample());
  bytes[at] = static_cast<std::byte>(value);
  return bytes;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("frame: golden bytes, as in docs/wire.md") {
    const std::vector<int> golden = {
        'T',  'R',  'U', 'P', 4, 0, 16, 3,  // magic, version, type, operation
        2,    0,    0,   0,   2, 0, 0,  0,  // dtype, reserved, rank
        8,    7,    6,   5,   4, 3, 2,  1,  // generation
        41,   0,    0,   0,   0, 0, 0,  0,  // sequence
        0xa0, 0x0f, 0,   0,   0, 0, 0,  0,  // total bytes
        0x34, 0x12, 0,   0,   0, 0, 0,  0,  // payload bytes
        0,    0,    0,   0,   1, 0, 0,  0,  // payload checksum, root
        0,    0,    0,   0};                // label
    const Bytes bytes = encode_frame(sample());
    for (std::size_t i = 0; i < golden.size(); ++i) {
      CAPTURE(i);
      CHECK(std::to_integer<int>(bytes[i]) == golden[i]);
    }
    const std::vector<int> golden_checksum = {0x37, 0x03, 0x5e, 0x99};
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(std::to_integer<int>(bytes[60 + i]) == golden_checksum[i]);
  }

  TEST_CASE("frame: what was encoded is what is decoded") {
    FrameHeader read;
    const Bytes bytes = encode_frame(sample());
    REQUIRE(decode_frame({bytes.data(), bytes.size()}, read) == FrameFault::none);
    CHECK(encode_frame(read) == bytes);
    CHECK(read.sequence == 41);
    CHECK(read.generation == 0x0102030405060708);
  }

  TEST_CASE("frame: every flipped bit is refused") {
    const Bytes good = encode_frame(sample());
    for (std::size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      CAPTURE(bit);
      CHECK(decode(bad) != FrameFault::none);
    }
  }

  TEST_CASE("frame: each malformed field is named, even under a right checksum") {
    CHECK(decode(sealed(changed(0, 'X'))) == FrameFault::bad_magic);
    CHECK(decode(sealed(changed(4, 1))) == FrameFault::bad_version);
    CHECK(decode(changed(24, 42)) == FrameFault::bad_checksum);
    CHECK(decode(sealed(changed(6, 0))) == FrameFault::bad_enum);
    CHECK(decode(sealed(changed(6, 38))) == FrameFault::bad_enum);
    CHECK(decode(sealed(changed(7, 8))) == FrameFault::bad_enum);
    CHECK(decode(sealed(changed(8, 7))) == FrameFault::bad_enum);
    CHECK(decode(sealed(changed(9, 1))) == FrameFault::bad_reserved);
    CHECK(decode(sealed(changed(11, 1))) == FrameFault::bad_reserved);
    Bytes labelled = changed(56, 1);
    CHECK(decode(sealed(labelled)) == FrameFault::none);  // of data
    labelled[6] = std::byte{1};
    CHECK(decode(sealed(labelled)) == FrameFault::bad_reserved);
    CHECK(decode(sealed(changed(14, 1))) == FrameFault::bad_rank);
    CHECK(decode(sealed(changed(54, 1))) == FrameFault::bad_rank);
    CHECK(decode(sealed(changed(47, 0xff))) == FrameFault::too_long);
  }

  TEST_CASE("frame: a length is held against the limit of its type") {
    for (int type = 1; type <= 16; ++type) {
      const std::uint64_t limit = troupe::max_payload_bytes(static_cast<FrameType>(type));
      Bytes bytes = changed(6, static_cast<std::uint8_t>(type));
      const auto with_length = [&](std::uint64_t length) {
        for (std::size_t i = 0; i < 8; ++i) {
          bytes[40 + i] = static_cast<std::byte>(length >> (8 * i));
        }
        return sealed(bytes);
      };
      CAPTURE(type);
      CHECK(decode(with_length(limit)) == FrameFault::none);
      CHECK(decode(with_length(limit + 1)) == FrameFault::too_long);
      CHECK(decode(with_length(UINT64_MAX)) == FrameFault::too_long);
    }
    CHECK(troupe::max_payload_bytes(FrameType::hello) == 64 * 1024);
    CHECK(troupe::max_payload_bytes(FrameType::signature) == 16 * 1024 * 1024);
  }

  TEST_CASE("frame: a refused header leaves the caller's untouched") {
    FrameHeader header = sample();
    const Bytes bad = changed(24, 42);
    REQUIRE(decode_frame({bad.data(), bad.size()}, header) == FrameFault::bad_checksum);
    CHECK(header.sequence == 41);
  }
}

}  // namespace frame_test
