// Event files, as TensorBoard reads them: records around hand-encoded protocol-buffer messages. A
// record is framed as TFRecord does it: length, checksum of the length, message, checksum of the
// message. docs/summaries.md has the byte table.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/core/unique_fd.h"
#include "troupe/report/event_message.h"

namespace troupe {

/// A longer record counts as damage: a summary of scalars takes a few hundred bytes.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 20;

/// CRC-32C, rotated and shifted, so that the checksum of data that holds its own checksum is not a
/// constant.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// `message` framed as a record of a file.
[[nodiscard]] std::string frame_record(std::string_view message);

/// Reads a file record by record, up to its size when opened: another process may be writing it.
class RecordReader {
 public:
  /// Throws: EnvironmentError if the file cannot be opened.
  explicit RecordReader(const std::string& path);

  /// The next record's message; false at the end, which is where any damage() is.
  /// Nothing after damage can be trusted: it includes the length that leads to the next record.
  /// Throws: EnvironmentError if the file cannot be read.
  [[nodiscard]] bool next(std::string& message);
  /// What is wrong with the file, and from where on; "" for an intact file.
  [[nodiscard]] const std::string& damage() const { return damage_; }
  /// Where the last record that next() read begins.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  bool stop(const std::string& damage);
  void read(std::string& bytes, std::uint64_t count);

  std::string path_;
  std::ifstream in_;
  std::uint64_t left_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t next_offset_ = 0;
  std::string damage_;
};

/// The names of the event files in `directory`, in the order that readers use: by the seconds in
/// them, then by name; other writers' too. Empty if the directory is missing.
///   events.out.tfevents.<seconds since 1970, 10 digits>.<machine>.<process>.<count>
/// Throws: EnvironmentError if it cannot be listed.
[[nodiscard]] std::vector<std::string> list_event_files(const std::string& directory);

/// A file that is being written.
class EventFile {
 public:
  /// Makes a new file in `directory`, which must exist. Throws: EnvironmentError.
  EventFile(const std::string& directory, WallTime now);

  /// An event as report/event_message.h encodes it. As append_bytes (report/json_lines.h).
  void write(const std::string& message);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd file_;
};

}  // namespace troupe
