#include "troupe/data/formats/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// Where a relative path begins, to be looked at.
std::string place_of(const std::filesystem::path& path) {
  std::error_code unknown;
  const auto here = std::filesystem::current_path(unknown);
  if (path.is_absolute() || unknown) return "";
  return text("; it begins at the current directory, ", here.string());
}

}  // namespace

std::string shown(std::string_view value) {
  constexpr std::size_t kShown = 100;  // bytes
  std::string result(value.substr(0, kShown));
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return value.size() > kShown ? result + "..." : result;
}

DataFile::DataFile(const std::filesystem::path& path, std::string fix)
    : path_(path), fix_(std::move(fix)) {
  // Non-blocking: opening a pipe would otherwise wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    fail(text("cannot be opened: ", reason(error)),
         error == EACCES
             ? "make the file and the directories above it readable for this user."
             : text("check the path, or the directory given with --data-dir", place_of(path), "."));
  }
  struct stat status = {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  file_.reset(regular ? gzdopen(fd, "rb") : nullptr);
  if (!file_) ::close(fd);
  if (!regular) {
    fail(S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file",
         "give the path of a file of examples.");
  }
  if (!file_) fail("cannot be read: zlib has no memory left");
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  compressed_ = gzdirect(file_.get()) == 0;
}

void DataFile::CloseGz::operator()(gzFile_s* file) const { gzclose(file); }

void DataFile::fail(const std::string& what_is_wrong, const std::string& fix) const {
  throw DataError(text("'", path_.string(), "' ", what_is_wrong, "."), fix);
}

void DataFile::check_stream() const {
  int error = Z_OK;
  std::string message = gzerror(file_.get(), &error);
  if (error == Z_OK || error == Z_STREAM_END) return;
  if (error == Z_ERRNO) fail(text("cannot be read: ", reason(errno)));
  if (error == Z_BUF_ERROR) fail("is truncated: its compressed data ends early");
  message.erase(0, message.find(": ") + 2);  // zlib's name for the file, "<fd:3>"
  fail(text("is corrupt: zlib says \"", message, "\""));
}

void DataFile::seek(std::uint64_t offset) {
  if (gzseek(file_.get(), static_cast<z_off_t>(offset), SEEK_SET) < 0) check_stream();
}

std::size_t DataFile::read_some(void* to, std::size_t count) {
  const auto piece = static_cast<unsigned>(std::min<std::size_t>(count, 1u << 30));
  const int got = gzread(file_.get(), to, piece);
  if (got <= 0) {
    check_stream();
    return 0;
  }
  content_read_ += static_cast<std::uint64_t>(got);
  if (compressed_ && content_read_ > credible_bytes()) {
    fail(text("unpacks to more than ", credible_bytes(), " bytes, from ", file_bytes_),
         "check where the file comes from; if it is right, unpack it with gunzip.");
  }
  return static_cast<std::size_t>(got);
}

void DataContent::read(void* to, std::uint64_t count, std::uint64_t expected, const char* what) {
  auto* out = static_cast<char*>(to);
  while (count > 0) {
    const std::size_t got = read_some(out, static_cast<std::size_t>(count));
    if (got == 0) {
      fail(text("is truncated: it holds ", content_read_, " bytes", compressed_ ? " unpacked" : "",
                ", expected ", expected, " (", what, ")"));
    }
    out += got;
    count -= got;
  }
}

std::vector<std::byte> DataContent::read_values(std::uint64_t header_bytes, std::uint64_t bytes) {
  constexpr std::uint64_t kUnpackStep = std::uint64_t{4} << 20;
  const std::uint64_t all = header_bytes + bytes;
  std::vector<std::byte> values;
  values.reserve(static_cast<std::size_t>(bytes));  // at once, so that nothing is copied
  while (values.size() < bytes) {
    const std::uint64_t have = values.size();
    const std::uint64_t piece = compressed_ ? std::min(bytes - have, kUnpackStep) : bytes - have;
    values.resize(static_cast<std::size_t>(have + piece));
    read(values.data() + have, piece, all, "header and values");
  }
  char extra = 0;  // at its end compressed content has its checksum looked at
  if (read_some(&extra, 1) != 0) {
    fail(text("continues after the ", all, " bytes that its header announces"));
  }
  return values;
}

void swap_bytes(std::vector<std::byte>& values, std::size_t value_bytes) {
  for (std::size_t i = 0; i + value_bytes <= values.size(); i += value_bytes) {
    std::reverse(values.data() + i, values.data() + i + value_bytes);
  }
}

}  // namespace troupe::detail
