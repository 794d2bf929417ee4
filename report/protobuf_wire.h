// Protocol-buffer messages by hand: the wire format without a schema compiler. A message is a row
// of fields; a field is a key (number and wire type) and a payload. Little-endian, whatever the
// machine is. https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/core/check.h"
#include "troupe/core/pull_range.h"

namespace troupe {

/// Appends the bytes of an unsigned `value`, lowest first.
template <class Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

/// The inverse; `bytes` has exactly the length of an Unsigned.
template <class Unsigned>
[[nodiscard]] Unsigned from_little_endian(std::string_view bytes) {
  TROUPE_CHECK_EQ(bytes.size(), sizeof(Unsigned));
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

/// Builds one message, field after field.
class WireWriter {
 public:
  void put_integer(std::uint32_t field, std::int64_t value);
  void put_float(std::uint32_t field, float value);
  void put_double(std::uint32_t field, double value);
  /// Text, or a message that another WireWriter built.
  void put_bytes(std::uint32_t field, std::string_view value);
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  std::string message_;
};

enum class WireType { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t integer = 0;  // of a varint
  std::string_view bytes;     // of the others: the payload, inside the message

  [[nodiscard]] bool is(std::uint32_t number_, WireType type_) const {
    return number == number_ && type == type_;
  }
};

/// Walks over the fields of a message that came from a file. Takes no memory.
class WireReader : public PullRange<WireReader, const WireField> {
 public:
  /// `message` outlives this object and the fields.
  explicit WireReader(std::string_view message) : rest_(message) {}
  /// The next field, until the one after; null at the end of the message.
  /// Throws: DataError where the bytes are no field, or have a wire type that proto3 lacks
  /// (groups).
  [[nodiscard]] const WireField* next();

 private:
  [[nodiscard]] std::uint64_t take_varint();
  [[nodiscard]] std::string_view take(std::uint64_t count);

  std::string_view rest_;
  WireField field_;
};

/// The payload of a fixed64 field, or 8 bytes of a packed one.
[[nodiscard]] double double_of(std::string_view bytes);
/// The payload of a fixed32 field, or 4 bytes of a packed one.
[[nodiscard]] float float_of(std::string_view bytes);

}  // namespace troupe
