// Event files, as TensorBoard reads them: records around hand-encoded protocol-buffer messages. A
// record is framed as TFRecord does it: length, checksum of the length, message, checksum of the
// message. docs/summaries.md has the byte table.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "summaries/event_message.h"

namespace troupe {

/// A longer record is taken for damage: a summary of scalars has some hundred bytes.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 20;

/// CRC-32C, rotated and shifted: so the checksum of data that holds its own checksum is no
/// constant.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// `message` with what stands around it in a file.
[[nodiscard]] std::string frame_record(std::string_view message);

/// Reads a file record by record, up to the size that it has at the beginning: another process may
/// be writing it.
class RecordReader {
 public:
  /// Throws: EnvironmentError where the file cannot be opened.
  explicit RecordReader(const std::string& path);

  /// The next record's message; false at the end, which is where damage() is, if there is any.
  /// Nothing after damage can be trusted: the length that leads to the next record is part of it.
  /// Throws: EnvironmentError where the file cannot be read.
  [[nodiscard]] bool next(std::string& message);
  /// What is wrong with the file, from where on; "" for a file that is whole.
  [[nodiscard]] const std::string& damage() const { return damage_; }
  /// Where the last record that next() looked at begins.
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

/// The names of the event files of `directory`, by which readers find them and know their order: by
/// the seconds in them, then by name; of other writers, too. Empty where the directory is missing.
///   events.out.tfevents.<seconds since 1970, 10 digits>.<machine>.<process>.<count>
/// Throws: EnvironmentError where it cannot be listed.
[[nodiscard]] std::vector<std::string> list_event_files(const std::string& directory);

/// A file that is being written.
class EventFile {
 public:
  /// Makes a new file in `directory`, which must exist. Throws: EnvironmentError.
  EventFile(const std::string& directory, WallTime now);

  /// An event as summaries/event_message.h encodes it. Throws: EnvironmentError.
  void write(const std::string& message);
  void flush();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void check();

  std::string path_;
  std::ofstream out_;
};

}  // namespace troupe
