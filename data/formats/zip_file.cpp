#include "troupe/data/formats/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kMemberMark = 0x04034b50;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEntryBytes = 46;
constexpr std::uint64_t kMemberBytes = 30;
constexpr std::uint64_t kLongestComment = 0xFFFF;
constexpr std::uint64_t kLargestDirectory = std::uint64_t{64} << 20;
constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr std::uint32_t kElsewhere = 0xFFFFFFFF;  // in a field of zip64

/// Little-endian numbers at an offset, of which the caller knows that they are there.
std::uint32_t number(const std::string& bytes, std::size_t at, int count) {
  std::uint32_t value = 0;
  for (int i = count; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

/// Where the record at the end begins; npos: there is none whose comment ends with the file.
std::size_t find_end(const std::string& tail) {
  for (std::size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    if (number(tail, at, 4) == kEndMark &&
        at + kEndBytes + number(tail, at + 20, 2) == tail.size()) {
      return at;
    }
  }
  return std::string::npos;
}

}  // namespace

ZipFile::ZipFile(const std::filesystem::path& path, std::string fix)
    : DataFile(path, std::move(fix)) {
  read_directory();
}

void ZipFile::read_at(std::uint64_t offset, void* to, std::uint64_t count) {
  seek(offset);
  read(to, count, offset + count, "archive");
}

void ZipFile::read_directory() {
  if (compressed()) fail("is no zip archive: it is gzip-compressed");
  if (file_bytes() < kEndBytes) fail("is no zip archive: it is too short");
  const std::uint64_t tail_bytes = std::min(file_bytes(), kEndBytes + kLongestComment);
  const std::uint64_t tail_at = file_bytes() - tail_bytes;
  std::string tail(tail_bytes, '\0');
  read_at(tail_at, tail.data(), tail_bytes);
  const std::size_t end = find_end(tail);
  if (end == std::string::npos) fail("is no zip archive, or its end is missing");
  const std::uint32_t disks = number(tail, end + 4, 4);
  const std::uint32_t entries = number(tail, end + 10, 2);
  const std::uint64_t bytes = number(tail, end + 12, 4);
  const std::uint64_t begin = number(tail, end + 16, 4);
  if (begin == kElsewhere || bytes == kElsewhere || entries == 0xFFFF) {
    fail("is a zip64 archive, with parts of 4 GiB or more: save such arrays as .npy");
  }
  if (disks != 0 || number(tail, end + 8, 2) != entries) fail("is one part of a zip archive");
  if (bytes > kLargestDirectory || begin > tail_at + end || bytes > tail_at + end - begin) {
    fail(text("has a directory of ", bytes, " bytes at byte ", begin, ", which is not in it"));
  }
  std::string directory(bytes, '\0');
  read_at(begin, directory.data(), bytes);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < entries; ++i) {
    const auto damaged = [&] {
      fail(text("has no entry ", i + 1, " of ", entries, " in its directory, or a damaged one"));
    };
    if (directory.size() - at < kEntryBytes || number(directory, at, 4) != kEntryMark) damaged();
    const std::size_t name_bytes = number(directory, at + 28, 2);
    const std::size_t more_bytes =
        name_bytes + number(directory, at + 30, 2) + number(directory, at + 32, 2);
    if (directory.size() - at - kEntryBytes < more_bytes) damaged();
    Member member;
    member.name = directory.substr(at + kEntryBytes, name_bytes);
    const std::uint32_t flags = number(directory, at + 8, 2);
    const std::uint32_t method = number(directory, at + 10, 2);
    member.deflated = method == 8;
    member.crc = number(directory, at + 16, 4);
    member.packed_bytes = number(directory, at + 20, 4);
    member.bytes = number(directory, at + 24, 4);
    member.header_at = number(directory, at + 42, 4);
    if ((flags & 1U) != 0 || (method != 0 && method != 8)) {
      fail(text("has an encrypted member, or one of method ", method,
                ", expected 0 (stored) or 8 (deflated)"));
    }
    if (member.packed_bytes == kElsewhere || member.bytes == kElsewhere ||
        member.header_at == kElsewhere) {
      fail("has a member of 4 GiB or more (zip64): save such an array as .npy");
    }
    members_.push_back(std::move(member));
    at += kEntryBytes + more_bytes;
  }
}

ZipMember::ZipMember(ZipFile& file, const ZipFile::Member& member) : file_(file), member_(member) {
  std::string header(kMemberBytes, '\0');
  if (member.header_at > file.file_bytes() || file.file_bytes() - member.header_at < kMemberBytes) {
    fail("begins behind the archive's end");
  }
  file.read_at(member.header_at, header.data(), kMemberBytes);
  if (number(header, 0, 4) != kMemberMark) fail("is not where the archive's directory says");
  next_ = member.header_at + kMemberBytes + number(header, 26, 2) + number(header, 28, 2);
  left_ = member.packed_bytes;
  if (next_ > file.file_bytes() || file.file_bytes() - next_ < left_) {
    fail("does not end within the archive");
  }
  if (!member.deflated) {
    if (member.bytes != member.packed_bytes)
      fail("is stored in another number of bytes than it has");
    return;
  }
  compressed_ = true;
  packed_.resize(kPiece);
  auto stream = std::make_unique<z_stream>();
  if (inflateInit2(stream.get(), -15) != Z_OK) fail("cannot be read: zlib has no memory left");
  stream_ = std::move(stream);
}

ZipMember::~ZipMember() {
  if (stream_) inflateEnd(stream_.get());
}

void ZipMember::fail(const std::string& what_is_wrong) const {
  file_.fail(text("member \"", shown(member_.name), "\" ", what_is_wrong));
}

std::size_t ZipMember::read_packed(char* to, std::size_t count) {
  const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(count, left_));
  if (piece > 0) file_.read_at(next_, to, piece);
  next_ += piece;
  left_ -= piece;
  return piece;
}

std::size_t ZipMember::unpack(char* to, std::size_t count) {
  const auto piece = static_cast<unsigned>(std::min<std::size_t>(count, 1u << 30));
  stream_->next_out = reinterpret_cast<Bytef*>(to);
  stream_->avail_out = piece;
  while (stream_->avail_out == piece) {
    if (stream_->avail_in == 0) {
      stream_->next_in = reinterpret_cast<Bytef*>(packed_.data());
      stream_->avail_in = static_cast<unsigned>(read_packed(packed_.data(), packed_.size()));
    }
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    if (result == Z_STREAM_END) break;
    if (result == Z_BUF_ERROR) fail("is truncated: its compressed data ends early");
    if (result != Z_OK) {
      fail(text("is corrupt: zlib says \"", stream_->msg == nullptr ? "" : stream_->msg, "\""));
    }
  }
  return piece - stream_->avail_out;
}

std::size_t ZipMember::read_some(void* to, std::size_t count) {
  auto* const out = static_cast<char*>(to);
  const std::size_t got = stream_ ? unpack(out, count) : read_packed(out, count);
  content_read_ += got;
  crc_ = static_cast<std::uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(out), got));
  if (got == 0 && (content_read_ != member_.bytes || crc_ != member_.crc)) {
    fail("is corrupt: its length or CRC is not the one in the archive's directory");
  }
  return got;
}

}  // namespace troupe::detail
