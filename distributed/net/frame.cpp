#include "troupe/distributed/net/frame.h"

#include "troupe/core/check.h"
#include "troupe/core/checksum.h"
#include "troupe/core/text.h"

namespace troupe {

namespace {

// Offsets of the fields; docs/wire.md shows the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 6;
constexpr std::size_t kOperationAt = 7;
constexpr std::size_t kDTypeAt = 8;
constexpr std::size_t kReservedAt = 9;  // three bytes
constexpr std::size_t kRankAt = 12;
constexpr std::size_t kGenerationAt = 16;
constexpr std::size_t kSequenceAt = 24;
constexpr std::size_t kTotalAt = 32;
constexpr std::size_t kPayloadAt = 40;
constexpr std::size_t kPayloadChecksumAt = 48;
constexpr std::size_t kRootAt = 52;
constexpr std::size_t kLabelAt = 56;
constexpr std::size_t kHeaderChecksumAt = 60;

constexpr std::uint64_t kKibi = 1024;
// A hello is small JSON; an unknown peer must not cost more than this.
constexpr std::uint64_t kMaxControlBytes = 64 * kKibi;
constexpr std::uint64_t kMaxWelcomeBytes = 1024 * kKibi;         // kMaxWorldSize endpoints
constexpr std::uint64_t kMaxSignatureBytes = 16 * 1024 * kKibi;  // a line per tensor
constexpr std::uint64_t kMaxRankListBytes = 1024 * kKibi;        // kMaxWorldSize ranks and clocks
constexpr std::uint64_t kMaxLinkHelloBytes = 16;                 // the session
constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1} << 46;  // never allocated, only counted

template <class T>
void put(std::byte* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get(const std::byte* at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  }
  return static_cast<T>(value);
}

/// The name at the number of `value`, which may come from another process.
template <class Enum, std::size_t count>
const char* name_in(const char* const (&names)[count], Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "unknown";
}

bool in_range(std::uint8_t value, std::uint8_t first, std::uint8_t last) {
  return value >= first && value <= last;
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

std::array<std::byte, kFrameHeaderBytes> encode_frame(const FrameHeader& header) {
  TROUPE_CHECK(header.payload_bytes <= max_payload_bytes(header.type));
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  put(&bytes[kMagicAt], kFrameMagic);
  put(&bytes[kVersionAt], header.version);
  bytes[kTypeAt] = static_cast<std::byte>(header.type);
  bytes[kOperationAt] = static_cast<std::byte>(header.operation);
  bytes[kDTypeAt] = static_cast<std::byte>(header.dtype);
  put(&bytes[kRankAt], header.rank);
  put(&bytes[kGenerationAt], header.generation);
  put(&bytes[kSequenceAt], header.sequence);
  put(&bytes[kTotalAt], header.total_bytes);
  put(&bytes[kPayloadAt], header.payload_bytes);
  put(&bytes[kPayloadChecksumAt], header.payload_checksum);
  put(&bytes[kRootAt], header.root);
  put(&bytes[kLabelAt], header.label);
  put(&bytes[kHeaderChecksumAt], checksum_of({bytes.data(), kHeaderChecksumAt}));
  return bytes;
}

FrameFault decode_frame(Span<const std::byte> bytes, FrameHeader& header) {
  TROUPE_CHECK_EQ(bytes.size(), kFrameHeaderBytes);
  const std::byte* at = bytes.data();
  if (get<std::uint32_t>(at + kMagicAt) != kFrameMagic) return FrameFault::bad_magic;
  // The version comes before the checksum: another version may place the checksum elsewhere.
  if (const auto version = get<std::uint16_t>(at + kVersionAt); version != kProtocolVersion) {
    header.version = version;
    return FrameFault::bad_version;
  }
  if (get<std::uint32_t>(at + kHeaderChecksumAt) != checksum_of({at, kHeaderChecksumAt})) {
    return FrameFault::bad_checksum;
  }
  const auto type = std::to_integer<std::uint8_t>(at[kTypeAt]);
  const auto operation = std::to_integer<std::uint8_t>(at[kOperationAt]);
  const auto dtype = std::to_integer<std::uint8_t>(at[kDTypeAt]);
  if (!in_range(type, static_cast<std::uint8_t>(FrameType::hello),
                static_cast<std::uint8_t>(kLastFrameType)) ||
      !in_range(operation, 0, static_cast<std::uint8_t>(kLastOperation)) ||
      !in_range(dtype, 0, static_cast<std::uint8_t>(DType::bfloat16))) {
    return FrameFault::bad_enum;
  }
  const bool head_clear = at[kReservedAt] == std::byte{0} && at[kReservedAt + 1] == std::byte{0} &&
                          at[kReservedAt + 2] == std::byte{0};
  const auto label = get<std::uint32_t>(at + kLabelAt);
  const bool may_have_label = static_cast<FrameType>(type) == FrameType::data;
  if (!head_clear || (label != 0 && !may_have_label)) return FrameFault::bad_reserved;

  FrameHeader read;
  read.type = static_cast<FrameType>(type);
  read.operation = static_cast<Operation>(operation);
  read.dtype = static_cast<DType>(dtype);
  read.rank = get<std::uint32_t>(at + kRankAt);
  read.generation = get<std::uint64_t>(at + kGenerationAt);
  read.sequence = get<std::uint64_t>(at + kSequenceAt);
  read.total_bytes = get<std::uint64_t>(at + kTotalAt);
  read.payload_bytes = get<std::uint64_t>(at + kPayloadAt);
  read.payload_checksum = get<std::uint32_t>(at + kPayloadChecksumAt);
  read.root = get<std::uint32_t>(at + kRootAt);
  read.label = label;
  if (read.rank >= kMaxWorldSize || read.root >= kMaxWorldSize) return FrameFault::bad_rank;
  if (read.payload_bytes > max_payload_bytes(read.type)) return FrameFault::too_long;
  header = read;
  return FrameFault::none;
}

}  // namespace troupe
