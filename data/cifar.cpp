#include "data/cifar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

constexpr std::int64_t kRecordBytes = 1 + kCifarPixels;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr std::int64_t kRecordsAtOnce = 1000;

constexpr const char* kFixFetchAgain =
    "unpack CIFAR-10's binary version again; its files hold records of 3073 bytes.";

// A file that is being read, closed at the end.
class Reader {
 public:
  explicit Reader(std::filesystem::path path) : path_(std::move(path)) {
    // Non-blocking: opening a pipe would otherwise wait for a writer.
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) {
      fail(text("cannot be opened: ", std::generic_category().message(errno)),
           "name the directory of CIFAR-10's binary files with --data-dir, or leave --data-dir out "
           "to use generated pictures.");
    }
  }
  ~Reader() {
    if (fd_ >= 0) ::close(fd_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The number of records; the file is what it should be but for labels.
  [[nodiscard]] std::int64_t records() const {
    struct stat status = {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      fail("is not a regular file", "put CIFAR-10's binary file there.");
    }
    const std::int64_t size = status.st_size;
    if (size == 0) fail("is empty");
    if (size > kMostBytes) fail(text("has ", size, " bytes, at most ", kMostBytes, " are read"));
    if (size % kRecordBytes != 0) {
      fail(text("is truncated: it ends in record ", size / kRecordBytes, ", after ",
                size % kRecordBytes, " of its ", kRecordBytes, " bytes"));
    }
    return size / kRecordBytes;
  }

  // Exactly `count` bytes; `record` is for the message.
  void read(std::uint8_t* to, std::int64_t count, std::int64_t record) {
    while (count > 0) {
      const ssize_t got = ::read(fd_, to, static_cast<std::size_t>(count));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(text("cannot be read: ", std::generic_category().message(errno)));
      if (got == 0) fail(text("ended at record ", record, " while it was read"));
      to += got;
      count -= got;
    }
  }

  [[noreturn]] void fail(const std::string& what_is_wrong,
                         const std::string& fix = kFixFetchAgain) const {
    throw DataError(text("'", path_.string(), "' ", what_is_wrong, "."), fix);
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

void append(CifarRecords& all, Reader& reader) {
  const std::int64_t records = reader.records();
  const std::size_t before = all.labels.size();
  all.labels.resize(before + static_cast<std::size_t>(records));
  all.images.resize(all.labels.size() * kCifarPixels);
  std::uint8_t* label = all.labels.data() + before;
  std::uint8_t* image = all.images.data() + before * kCifarPixels;
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(kRecordsAtOnce * kRecordBytes));
  for (std::int64_t record = 0; record < records;) {
    const std::int64_t count = std::min(kRecordsAtOnce, records - record);
    reader.read(piece.data(), count * kRecordBytes, record);
    const std::uint8_t* from = piece.data();
    for (std::int64_t i = 0; i < count; ++i, ++record, from += kRecordBytes) {
      if (*from >= kCifarClasses) {
        reader.fail(text("has label ", int{*from}, " in record ", record, ", expected 0 to ",
                         kCifarClasses - 1));
      }
      *label++ = *from;
      std::memcpy(image, from + 1, kCifarPixels);
      image += kCifarPixels;
    }
  }
}

}  // namespace

CifarRecords read_cifar(const std::filesystem::path& dir, const std::vector<std::string>& names) {
  CifarRecords all;
  for (const std::string& name : names) {
    Reader reader(dir / name);
    append(all, reader);
  }
  return all;
}

}  // namespace troupe
