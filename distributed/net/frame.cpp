#include "troupe/distributed/net/frame.h"

#include <cstring>

#include "troupe/core/check.h"
#include "troupe/core/checksum.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr std::uint64_t kKibi = 1024;
// A hello is small JSON; an unknown peer must not cost more than this.
constexpr std::uint64_t kMaxControlBytes = 64 * kKibi;
constexpr std::uint64_t kMaxWelcomeBytes = 1024 * kKibi;         // kMaxWorldSize endpoints
constexpr std::uint64_t kMaxSignatureBytes = 16 * 1024 * kKibi;  // a line per tensor
constexpr std::uint64_t kMaxRankListBytes = 1024 * kKibi;        // kMaxWorldSize ranks and clocks
constexpr std::uint64_t kMaxLinkHelloBytes = 16;                 // the session
constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1} << 46;  // never allocated, only counted

std::uint32_t checksum_of_header(const FrameHeader& header) {
  const Span<const std::byte> bytes = as_bytes(Span<const FrameHeader>(&header, 1));
  return checksum_of(bytes.subspan(0, offsetof(FrameHeader, checksum)));
}

/// The name at the number of `value`, which may come from another process.
template <class Enum, std::size_t count>
const char* name_in(const char* const (&names)[count], Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "unknown";
}

}  // namespace

const char* name_of(Operation operation) {
  return name_in({"nothing", "all_reduce", "reduce_scatter", "broadcast", "all_gather", "barrier",
                  "close", "gather"},
                 operation);
}

const char* name_of(DType dtype) {
  return name_in({"no data", "bytes", "float32", "float64", "int64", "float16", "bfloat16"}, dtype);
}

const char* describe(FrameFault fault) {
  return name_in({"no fault", "it does not start with Troupe's magic number",
                  "it has another protocol version", "its checksum is wrong",
                  "its type, operation or data type is unknown", "its reserved bytes are not zero",
                  "its rank is out of range", "it announces more bytes than its type may have"},
                 fault);
}

bool is_damage(FrameFault fault) {
  return fault == FrameFault::bad_magic || fault == FrameFault::bad_version ||
         fault == FrameFault::bad_checksum;
}

std::string describe_versions(std::uint16_t theirs, const std::string& us) {
  return text("it speaks version ", theirs, " of the protocol, ", us, " version ",
              kProtocolVersion);
}

bool is_bulk(FrameType type) {
  return type == FrameType::state || type == FrameType::push || type == FrameType::values;
}

std::uint64_t max_payload_bytes(FrameType type) {
  switch (type) {
    case FrameType::welcome:
      return kMaxWelcomeBytes;
    case FrameType::signature:
      return kMaxSignatureBytes;
    case FrameType::link_hello:
      return kMaxLinkHelloBytes;
    case FrameType::data:
    case FrameType::state:
    case FrameType::push:
    case FrameType::values:
      return kMaxDataBytes;
    case FrameType::begun:
    case FrameType::held:
    case FrameType::collect:
    case FrameType::statistics:
      return kMaxRankListBytes;
    case FrameType::ready:
    case FrameType::start:
    case FrameType::heartbeat:
    case FrameType::goodbye:
    case FrameType::link_accept:
    case FrameType::entry:
    case FrameType::enter:
    case FrameType::entered:
    case FrameType::begin:
    case FrameType::pushed:
    case FrameType::end:
    case FrameType::hold:
    case FrameType::collected:
    case FrameType::release:
      return 0;
    default:
      return kMaxControlBytes;
  }
}

std::array<std::byte, kFrameHeaderBytes> encode_frame(FrameHeader header) {
  TROUPE_CHECK(header.payload_bytes <= max_payload_bytes(header.type));
  header.checksum = checksum_of_header(header);
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  std::memcpy(bytes.data(), &header, bytes.size());
  return bytes;
}

FrameFault decode_frame(Span<const std::byte> bytes, FrameHeader& header) {
  TROUPE_CHECK_EQ(bytes.size(), kFrameHeaderBytes);
  FrameHeader read;
  std::memcpy(&read, bytes.data(), bytes.size());
  if (read.magic != kFrameMagic) return FrameFault::bad_magic;
  // The version comes before the checksum: another version may place the checksum elsewhere.
  if (read.version != kProtocolVersion) {
    header.version = read.version;
    return FrameFault::bad_version;
  }
  if (read.checksum != checksum_of_header(read)) return FrameFault::bad_checksum;
  if (read.type < FrameType::hello || read.type > kLastFrameType ||
      read.operation > kLastOperation || read.dtype > DType::bfloat16) {
    return FrameFault::bad_enum;
  }
  const bool may_have_label = read.type == FrameType::data;
  if (read.reserved != FrameHeader{}.reserved || (read.label != 0 && !may_have_label)) {
    return FrameFault::bad_reserved;
  }
  if (read.rank >= kMaxWorldSize || read.root >= kMaxWorldSize) return FrameFault::bad_rank;
  if (read.payload_bytes > max_payload_bytes(read.type)) return FrameFault::too_long;
  header = read;
  return FrameFault::none;
}

}  // namespace troupe
