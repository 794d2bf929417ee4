// DataFile: a file of examples that is being read, plain or gzip-compressed, as zlib finds out.
// DataContent: what is read from its beginning to its end, such a file or a part of one. Every
// error is a DataError that names the file, what was found and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct gzFile_s;  // zlib's

namespace troupe::detail {

/// What so many compressed bytes may come to before they are refused: 64 MiB, or 100 times as many.
/// Deflate can pack 1032 to 1 (zlib.net/zlib_tech.html), which only a file of one value comes near:
/// MNIST's images are packed 5 to 1. A small file may be all of one value.
[[nodiscard]] constexpr std::uint64_t credible_bytes(std::uint64_t packed) {
  constexpr std::uint64_t kAlways = std::uint64_t{64} << 20;
  return packed > kAlways / 100 ? packed * 100 : kAlways;
}

/// The beginning of a text from a file as a message can show it: on one line, without control
/// characters.
[[nodiscard]] std::string shown(std::string_view value);

class DataContent {
 public:
  DataContent() = default;
  virtual ~DataContent() = default;
  DataContent(const DataContent&) = delete;
  DataContent& operator=(const DataContent&) = delete;

  [[nodiscard]] bool compressed() const { return compressed_; }
  /// Exactly `count` bytes. Throws: DataError that says how many of `what` were expected.
  void read(void* to, std::uint64_t count, std::uint64_t expected, const char* what);
  /// All that follows a header: `bytes` of values, which the caller has held against a limit.
  /// Compressed content may turn out to be short: then memory is touched as it is unpacked.
  [[nodiscard]] std::vector<std::byte> read_values(std::uint64_t header_bytes, std::uint64_t bytes);
  /// At most `count` bytes, 0 at the end. Throws: DataError if they are corrupt, or come to more
  /// than is credible.
  [[nodiscard]] virtual std::size_t read_some(void* to, std::size_t count) = 0;
  [[noreturn]] virtual void fail(const std::string& what_is_wrong) const = 0;

 protected:
  bool compressed_ = false;
  std::uint64_t content_read_ = 0;
};

class DataFile : public DataContent {
 public:
  /// `fix` belongs to errors about the content. Does not wait for a pipe's writer.
  /// Throws: DataError if the file is missing, not readable or no regular file.
  DataFile(const std::filesystem::path& path, std::string fix);

  /// Of the file as it lies on the disk.
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  /// See detail::credible_bytes.
  [[nodiscard]] std::uint64_t credible_bytes() const { return detail::credible_bytes(file_bytes_); }
  /// The next byte that is read, of a file that is not compressed.
  void seek(std::uint64_t offset);
  [[nodiscard]] std::size_t read_some(void* to, std::size_t count) override;
  [[noreturn]] void fail(const std::string& what_is_wrong) const override {
    fail(what_is_wrong, fix_);
  }
  [[noreturn]] void fail(const std::string& what_is_wrong, const std::string& fix) const;

 private:
  struct CloseGz {
    void operator()(gzFile_s* file) const;
  };
  void check_stream() const;

  std::filesystem::path path_;
  std::string fix_;
  std::unique_ptr<gzFile_s, CloseGz> file_;
  std::uint64_t file_bytes_ = 0;
};

/// The bytes of each value the other way round.
void swap_bytes(std::vector<std::byte>& values, std::size_t value_bytes);

}  // namespace troupe::detail
