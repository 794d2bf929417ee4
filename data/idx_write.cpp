#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"
#include "data/idx.h"

namespace troupe {
namespace {

std::vector<unsigned char> encode(const IdxArray& array) {
  const std::size_t width = idx_value_bytes(array.type);
  std::uint64_t bytes = width;
  std::vector<unsigned char> out = {0, 0, static_cast<unsigned char>(array.type),
                                    static_cast<unsigned char>(array.dims.size())};
  TROUPE_CHECK(!array.dims.empty() && array.dims.size() <= 4);
  for (const std::int64_t dim : array.dims) {
    TROUPE_CHECK(dim >= 0 && dim <= 0xFFFFFFFF);
    TROUPE_CHECK(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes));
    for (const int shift : {24, 16, 8, 0}) {
      out.push_back(static_cast<unsigned char>(dim >> shift));
    }
  }
  TROUPE_CHECK_EQ(array.bytes.size(), bytes);
  const std::size_t start = out.size();
  out.resize(start + array.bytes.size());
  const auto* const values = reinterpret_cast<const unsigned char*>(array.bytes.data());
  std::copy(values, values + array.bytes.size(), out.data() + start);
  const std::uint16_t one = 1;
  if (*reinterpret_cast<const unsigned char*>(&one) == 1 && width > 1) {
    for (std::size_t i = start; i < out.size(); i += width) {
      std::reverse(out.data() + i, out.data() + i + width);
    }
  }
  return out;
}

// 0 or errno. The data is on the disk before the caller renames.
int write_new_file(const std::filesystem::path& path, const std::vector<unsigned char>& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  int error = 0;
  for (std::size_t done = 0; done < bytes.size() && error == 0;) {
    const ssize_t wrote = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote >= 0) {
      done += static_cast<std::size_t>(wrote);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  const std::vector<unsigned char> bytes = encode(array);
  // The process id keeps two writers apart; the last to rename wins, and both are whole.
  const std::filesystem::path temporary = path.string() + text(".tmp.", ::getpid());
  int error = write_new_file(temporary, bytes);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(temporary.c_str());
  throw EnvironmentError(text("'", path.string(),
                              "' cannot be written: ", std::generic_category().message(error), "."),
                         "check that the directory exists, is writable and has room.");
}

}  // namespace troupe
