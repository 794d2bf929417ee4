// Records of an event file, as TFRecord frames them: length, checksum of the length, message,
// checksum of the message. docs/summaries.md has the byte table.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

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

}  // namespace troupe
