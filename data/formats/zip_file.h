// ZipFile: the members of a zip archive that is being read (PKWARE's APPNOTE 6.3.3), stored or
// deflated, each from its beginning to its end. As the archive's directory at its end says; what
// the members' own headers say is ignored but for their length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "troupe/data/formats/data_file.h"

struct z_stream_s;  // zlib's

namespace troupe::detail {

class ZipFile final : public DataFile {
 public:
  struct Member {
    std::string name;
    bool deflated = false;
    std::uint32_t crc = 0;
    std::uint64_t packed_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint64_t header_at = 0;
  };

  /// `fix` belongs to errors about the content.
  /// Throws: DataError if the file is missing, no regular file, or no archive of plain members:
  /// encrypted ones, other methods and parts of 4 GiB (zip64) are refused.
  ZipFile(const std::filesystem::path& path, std::string fix);

  /// In the archive's order. Their data lies within the file, apart from that nothing is checked.
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  void read_at(std::uint64_t offset, void* to, std::uint64_t count);

 private:
  void read_directory();

  std::vector<Member> members_;
};

class ZipMember final : public DataContent {
 public:
  /// Both outlive this object.  Throws: DataError if its header is not where the directory says.
  ZipMember(ZipFile& file, const ZipFile::Member& member);
  ~ZipMember() override;

  [[nodiscard]] std::size_t read_some(void* to, std::size_t count) override;
  [[noreturn]] void fail(const std::string& what_is_wrong) const override;

 private:
  [[nodiscard]] std::size_t read_packed(char* to, std::size_t count);
  [[nodiscard]] std::size_t unpack(char* to, std::size_t count);

  ZipFile& file_;
  const ZipFile::Member& member_;
  std::uint64_t next_ = 0;              // of the packed bytes, in the file
  std::uint64_t left_ = 0;              // packed bytes
  std::uint32_t crc_ = 0;               // of what was read
  std::vector<char> packed_;            // a piece
  std::unique_ptr<z_stream_s> stream_;  // null: stored
};

}  // namespace troupe::detail
