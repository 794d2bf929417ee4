// Protocol-buffer messages by hand: the wire format without a schema compiler. A message is a row
// of fields; a field is a key (number and wire type) and a payload. Little-endian, whatever the
// machine is. https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <array>
#include <boost/endian/conversion.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/core/check.h"

namespace troupe {

/// Appends the bytes of `value`, an unsigned or a real number, lowest first.
template <class Number>
void append_little_endian(std::string& bytes, Number value) {
  std::array<unsigned char, sizeof value> stored{};
  boost::endian::endian_store<Number, sizeof value, boost::endian::order::little>(stored.data(),
                                                                                  value);
  bytes.append(stored.begin(), stored.end());
}

/// The inverse; `bytes` has exactly the length of a Number.
template <class Number>
[[nodiscard]] Number from_little_endian(std::string_view bytes) {
  TROUPE_CHECK_EQ(bytes.size(), sizeof(Number));
  return boost::endian::endian_load<Number, sizeof(Number), boost::endian::order::little>(
      reinterpret_cast<const unsigned char*>(bytes.data()));
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

/// Walks over the fields of a message that came from a file. Takes no memory.
class WireReader {
 public:
  /// `message` outlives this object.
  explicit WireReader(std::string_view message) : rest_(message) {}
  /// Goes to the next field; false at the end of the message.
  /// Throws: DataError where the bytes are no field, or have a wire type that proto3 lacks
  /// (groups).
  [[nodiscard]] bool next();
  [[nodiscard]] bool is(std::uint32_t number, WireType type) const {
    return number_ == number && type_ == type;
  }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  /// Of a varint.
  [[nodiscard]] std::uint64_t integer() const { return integer_; }
  /// Of the others: the payload, inside the message. Empty for a varint.
  [[nodiscard]] std::string_view bytes() const { return bytes_; }

 private:
  [[nodiscard]] std::uint64_t take_varint();
  [[nodiscard]] std::string_view take(std::uint64_t count);

  std::string_view rest_;
  std::uint32_t number_ = 0;
  WireType type_ = WireType::varint;
  std::uint64_t integer_ = 0;
  std::string_view bytes_;
};

}  // namespace troupe
