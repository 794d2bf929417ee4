#include "summaries/event_record.h"

#include <boost/crc.hpp>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "summaries/little_endian.h"

namespace troupe {
namespace {

using Crc32c = boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kHeaderBytes = kLengthBytes + kCrcBytes;
constexpr std::uint32_t kCrcMask = 0xA282EAD8;  // the format's constant

[[noreturn]] void throw_unreadable(const std::string& path) {
  throw EnvironmentError(text("'", path, "' cannot be read: ", std::strerror(errno), "."),
                         "give this user the right to read it, or move it away.");
}

/// Whether `bytes` ends with the checksum of what is before it.
bool checksum_fits(std::string_view bytes) {
  const std::size_t size = bytes.size() - kCrcBytes;
  return from_little_endian<std::uint32_t>(bytes.substr(size)) ==
         masked_crc32c(bytes.substr(0, size));
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  Crc32c crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + kCrcMask;
}

std::string frame_record(std::string_view message) {
  std::string record;
  record.reserve(kHeaderBytes + message.size() + kCrcBytes);
  append_little_endian(record, std::uint64_t{message.size()});
  append_little_endian(record, masked_crc32c(record));
  record += message;
  append_little_endian(record, masked_crc32c(message));
  return record;
}

RecordReader::RecordReader(const std::string& path) : path_(path) {
  errno = 0;
  in_.open(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in_ ? std::streamoff(in_.tellg()) : -1;
  if (size < 0 || !in_.seekg(0)) throw_unreadable(path_);
  left_ = static_cast<std::uint64_t>(size);
}

bool RecordReader::next(std::string& message) {
  offset_ = next_offset_;
  if (left_ == 0) return false;
  if (left_ < kHeaderBytes) return stop("ends in the middle of a record");
  read(message, kHeaderBytes);
  if (!checksum_fits(message)) return stop("has a wrong checksum of a record's length");
  const auto length =
      from_little_endian<std::uint64_t>(std::string_view(message).substr(0, kLengthBytes));
  if (length > kMaxRecordBytes) return stop(text("has a record of ", length, " bytes"));
  if (left_ < length + kCrcBytes) return stop("ends in the middle of a record");
  read(message, length + kCrcBytes);
  if (!checksum_fits(message)) return stop("has a wrong checksum of a record");
  message.resize(message.size() - kCrcBytes);
  return true;
}

bool RecordReader::stop(const std::string& damage) {
  damage_ = text("'", path_, "' ", damage, " at byte ", offset_);
  left_ = 0;
  next_offset_ = offset_;
  return false;
}

/// The caller has checked that `count` bytes are left.
void RecordReader::read(std::string& bytes, std::uint64_t count) {
  bytes.resize(count);
  errno = 0;
  if (!in_.read(bytes.data(), static_cast<std::streamsize>(count))) throw_unreadable(path_);
  left_ -= count;
  next_offset_ += count;
}

}  // namespace troupe
