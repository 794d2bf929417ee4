// Frame: the fixed 64-byte header that starts everything Troupe sends (byte table: docs/wire.md).
//
// What arrives is hostile until decode_frame() has accepted it: magic, protocol version, checksum,
// enums, reserved bytes, rank and length are checked here, and no caller allocates before that.
#pragma once

#include <array>
#include <boost/endian/arithmetic.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "troupe/core/span.h"

namespace troupe {

using boost::endian::little_uint16_t;
using boost::endian::little_uint32_t;
using boost::endian::little_uint64_t;

inline constexpr std::size_t kFrameHeaderBytes = 64;
inline constexpr std::uint32_t kFrameMagic = 0x50555254;  // "TRUP", little endian
inline constexpr std::uint16_t kProtocolVersion = 4;
inline constexpr std::uint32_t kMaxWorldSize = 4096;

/// Every kind of frame. The numbers are the protocol: new kinds get new numbers.
enum class FrameType : std::uint8_t {
  hello = 1,         // worker to chief: who I am and what I train
  refuse = 2,        // chief to worker: you cannot join, and why
  waiting = 3,       // chief to worker: which workers are missing
  signature = 4,     // chief to worker: the model that the chief built
  welcome = 6,       // chief to worker: all are here; session and endpoints
  ready = 7,         // worker to chief: my links are made
  start = 8,         // chief to worker: every link is made
  heartbeat = 9,     // both ways; sequence: collectives entered so far
  report = 10,       // worker to chief: I failed, or found a failure
  suspect = 11,      // worker to chief: my link to this rank broke
  abort = 12,        // chief to worker: the group stops for this reason
  goodbye = 13,      // worker to chief, then chief to all: an orderly end
  link_hello = 14,   // worker to worker: first frame of a data link
  link_accept = 15,  // the answer to it
  data = 16,         // worker to worker: a message of a collective
  // Between a worker and a parameter server, who also use 1, 2, 3, 4, 9, 10, 12 and 13.
  entry = 17,       // server to worker: welcome; sequence: the clock to start with (server 0's)
  enter = 18,       // worker to server: I take part; sequence: from this clock on
  entered = 19,     // server to worker: you do
  state = 20,       // chief to server, server to chief: what its store holds
  launch = 21,      // chief to server: training begins with the state before this
  launched = 22,    // server to worker: it has begun, with the chief's data; sequence: its step
  begin = 23,       // worker to server: may I take the step after this clock, and its values
  begun = 24,       // server to worker: yes, or training is over
  push = 25,        // worker to server: gradients
  pushed = 26,      // server to worker, synchronous: what became of them, in sequence
  end = 27,         // worker to server: the step is complete; sequence: my clock now
  values = 28,      // server to worker: what has changed; before begun, pushed and collected
  hold = 29,        // chief to server 0: grant no more steps
  held = 30,        // server 0 to chief: the clocks that workers will get to
  collect = 31,     // chief to server: your state once workers are at these clocks
  collected = 32,   // server to chief: the state before this is it; sequence: updates so far
  release = 33,     // chief to server 0: grant steps again
  finish = 34,      // chief to server: training is over
  statistics = 35,  // server 0 to chief: all workers have left; what was counted
  // Between launchers, who also use 1, 2, 6, 9, 10, 12 and 13.
  round = 36,   // what a worker and the rendezvous of its rounds say; sequence: which worker
  worker = 37,  // a process has started or ended there, or is to
};
inline constexpr FrameType kLastFrameType = FrameType::worker;

/// Frames whose payload may be as large as a model: each connection says how large, none by itself.
[[nodiscard]] bool is_bulk(FrameType type);

enum class Operation : std::uint8_t {
  none = 0,
  all_reduce = 1,
  reduce_scatter = 2,
  broadcast = 3,
  all_gather = 4,
  barrier = 5,
  close = 6,
  gather = 7,
};
inline constexpr Operation kLastOperation = Operation::gather;

enum class DType : std::uint8_t {
  none = 0,
  bytes = 1,
  float32 = 2,
  float64 = 3,
  int64 = 4,
  float16 = 5,
  bfloat16 = 6,
};

[[nodiscard]] const char* name_of(Operation operation);
[[nodiscard]] const char* name_of(DType dtype);

/// The header as it travels. Fields that a type does not use are zero.
struct FrameHeader {
  little_uint32_t magic{kFrameMagic};
  /// Only a refusal carries another: the one that its reader understands.
  little_uint16_t version{kProtocolVersion};
  FrameType type = FrameType::heartbeat;
  Operation operation = Operation::none;
  DType dtype = DType::none;
  std::array<std::byte, 3> reserved{};
  little_uint32_t rank{0};  // the sender
  little_uint64_t generation{0};
  little_uint64_t sequence{0};     // which collective of this group, from 1
  little_uint64_t total_bytes{0};  // of the whole collective, as the caller gave it
  little_uint64_t payload_bytes{0};
  /// checksum_of() it; of bulk frames 0 where the connection guards them. Data has seals instead
  /// (distributed/collectives/stream.h).
  little_uint32_t payload_checksum{0};
  little_uint32_t root{0};      // of a broadcast
  little_uint32_t label{0};     // data: what the collective is for; 0: not given
  little_uint32_t checksum{0};  // of all before it; encode_frame() fills it in
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

/// Why a header was not accepted.
enum class FrameFault {
  none,
  bad_magic,
  bad_version,
  bad_checksum,
  bad_enum,
  bad_reserved,
  bad_rank,
  too_long,
};
[[nodiscard]] const char* describe(FrameFault fault);
/// Whether a header of a peer that has sent right ones before was damaged on the way; another
/// process may have other reasons for these faults in its first.
[[nodiscard]] bool is_damage(FrameFault fault);
/// "it speaks version 1 of the protocol, `us` version 2"
[[nodiscard]] std::string describe_versions(std::uint16_t theirs, const std::string& us);

/// Largest payload that a frame of this type may announce, in bytes. Of bulk frames it is only a
/// bound for arithmetic: a connection's own limit counts.
[[nodiscard]] std::uint64_t max_payload_bytes(FrameType type);

[[nodiscard]] std::array<std::byte, kFrameHeaderBytes> encode_frame(FrameHeader header);

/// Reads a header; `header` is changed only when the result is FrameFault::none, but for its
/// version where that is not ours. Shapes: bytes [kFrameHeaderBytes].
[[nodiscard]] FrameFault decode_frame(Span<const std::byte> bytes, FrameHeader& header);

}  // namespace troupe
