#include "troupe/report/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <boost/crc.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/span.h"
#include "troupe/core/text.h"
#include "troupe/report/json_lines.h"
#include "troupe/report/protobuf_wire.h"

namespace troupe {
namespace {

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

namespace fs = std::filesystem;

constexpr const char* kMark = "tfevents";  // what every reader looks for
constexpr std::size_t kSecondsDigits = 10;
constexpr std::uint64_t kMaxNameSeconds = 9'999'999'999;  // as many as a name has room for

std::uint64_t seconds_of(const std::string& name) {
  const std::size_t mark = name.find(text(kMark, "."));
  if (mark == std::string::npos) return 0;
  const char* begin = name.data() + mark + std::char_traits<char>::length(kMark) + 1;
  std::uint64_t seconds = 0;
  const auto result = std::from_chars(begin, name.data() + name.size(), seconds);
  if (result.ec == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
  return seconds;
}

/// This machine's name, as far as it is fit for a file name.
std::string machine_name() {
  boost::system::error_code unknown;
  std::string name = boost::asio::ip::host_name(unknown);
  for (char& c : name) {
    if (!is_name_character(c)) c = '-';
  }
  return name.empty() ? "unknown" : name;
}

constexpr mode_t kMode = 0666;  // less what the umask takes away

/// Seconds for a name: later than those of all files there, so that the order of names is the order
/// of writing also after a quick restart, and on a machine whose clock is behind.
std::uint64_t name_seconds(const std::string& directory, WallTime now) {
  constexpr auto kMax = static_cast<double>(kMaxNameSeconds);
  // Not a number ends as 0: std::max returns its first argument then.
  const auto seconds = static_cast<std::uint64_t>(std::min(std::max(0.0, now), kMax));
  const std::vector<std::string> there = list_event_files(directory);
  const std::uint64_t latest = there.empty() ? 0 : seconds_of(there.back());
  if (there.empty() || latest < seconds) return seconds;
  return std::min(latest, kMaxNameSeconds - 1) + 1;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  // CRC-32C. Source: RFC 3720, B.4.
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
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

std::vector<std::string> list_event_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;  // a file that vanishes meanwhile is none
    const bool regular = entry->symlink_status(gone).type() == fs::file_type::regular;
    if (name.find(kMark) != std::string::npos && regular) {
      files.push_back(name);
    }
  }
  if (error) {
    throw EnvironmentError(
        text("the directory '", directory, "' cannot be listed: ", error.message(), "."),
        "name a directory that this user may read.");
  }
  std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return std::make_pair(seconds_of(a), a) < std::make_pair(seconds_of(b), b);
  });
  return files;
}

EventFile::EventFile(const std::string& directory, WallTime now) {
  std::string digits = text(name_seconds(directory, now));
  digits.insert(0, kSecondsDigits - digits.size(), '0');
  const std::string stem =
      text(directory, "/events.out.", kMark, ".", digits, ".", machine_name(), ".", ::getpid());
  for (std::uint64_t count = 0; file_.get() < 0; ++count) {  // until nobody has the name
    path_ = text(stem, ".", count);
    constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC;
    file_ = UniqueFd(::open(path_.c_str(), kFlags, kMode));  // NOLINT
    if (file_.get() >= 0 || errno == EEXIST || errno == EINTR) continue;
    throw EnvironmentError(text("'", path_, "' cannot be made: ", std::strerror(errno), "."),
                           "name a directory that exists and is writable.");
  }
  write(encode_file_version(now));
}

void EventFile::write(const std::string& message) {
  append_bytes(file_, path_, frame_record(message));
}

}  // namespace troupe
