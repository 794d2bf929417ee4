#include "troupe/report/protobuf_wire.h"

#include "troupe/core/error.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxKey = 0xFFFFFFFF;  // field numbers have 29 bits
constexpr int kMaxShift = 63;                  // of a varint's last group of 7 bits

[[noreturn]] void refuse(const std::string& what) {
  throw DataError("a message " + what + ".",
                  "write the file again; it is damaged or no event file.");
}

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& bytes, std::uint32_t field, WireType type) {
  append_varint(bytes, (std::uint64_t{field} << 3) | static_cast<std::uint64_t>(type));
}

}  // namespace

void WireWriter::put_integer(std::uint32_t field, std::int64_t value) {
  append_key(message_, field, WireType::varint);
  append_varint(message_, static_cast<std::uint64_t>(value));
}

void WireWriter::put_float(std::uint32_t field, float value) {
  append_key(message_, field, WireType::fixed32);
  append_little_endian(message_, value);
}

void WireWriter::put_double(std::uint32_t field, double value) {
  append_key(message_, field, WireType::fixed64);
  append_little_endian(message_, value);
}

void WireWriter::put_bytes(std::uint32_t field, std::string_view value) {
  append_key(message_, field, WireType::bytes);
  append_varint(message_, value.size());
  message_ += value;
}

bool WireReader::next() {
  if (rest_.empty()) return false;
  const std::uint64_t key = take_varint();
  if (key > kMaxKey || (key >> 3) == 0) refuse("has an impossible field number");
  number_ = static_cast<std::uint32_t>(key >> 3);
  type_ = static_cast<WireType>(key & 7);
  bytes_ = {};
  switch (type_) {
    case WireType::varint:
      integer_ = take_varint();
      break;
    case WireType::fixed64:
      bytes_ = take(8);
      break;
    case WireType::bytes:
      bytes_ = take(take_varint());
      break;
    case WireType::fixed32:
      bytes_ = take(4);
      break;
    default:
      refuse("has a field of an unknown wire type");
  }
  return true;
}

std::uint64_t WireReader::take_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift <= kMaxShift; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    const std::uint64_t group = byte & 0x7F;
    if (shift == kMaxShift && group > 1) refuse("has a number of more than 64 bits");
    value |= group << shift;
    if (byte < 0x80) return value;
  }
  refuse("has a number of more than 64 bits");
}

std::string_view WireReader::take(std::uint64_t count) {
  if (count > rest_.size()) refuse("ends inside a field");
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

}  // namespace troupe
