// DataFile: a file of examples that is being read, plain or gzip-compressed, as zlib finds out.
// Every error is a DataError that names the file, what was found and what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

struct gzFile_s;  // zlib's

namespace troupe::detail {

class DataFile {
 public:
  /// `fix` belongs to errors about the content. Does not wait for a pipe's writer.
  /// Throws: DataError if the file is missing, not readable or no regular file.
  DataFile(const std::filesystem::path& path, std::string fix);

  /// Of the file as it lies on the disk.
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] bool compressed() const { return compressed_; }

  /// Exactly `count` bytes of content. Throws: DataError that says how many of `what` were
  /// expected.
  void read(void* to, std::uint64_t count, std::uint64_t expected, const char* what);
  /// Content ends here; for a compressed file that checks its CRC.
  void expect_end(std::uint64_t expected);
  [[noreturn]] void fail(const std::string& what_is_wrong) const { fail(what_is_wrong, fix_); }
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
  bool compressed_ = false;
  std::uint64_t content_read_ = 0;
};

}  // namespace troupe::detail
