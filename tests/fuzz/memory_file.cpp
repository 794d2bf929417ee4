#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

namespace troupe::fuzz {

MemoryFile::MemoryFile(std::string_view content) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  FUZZ_REQUIRE(fd_ >= 0 && ::fchmod(fd_, S_IRUSR | S_IWUSR) == 0);
  FUZZ_REQUIRE(::write(fd_, content.data(), content.size()) ==
               static_cast<ssize_t>(content.size()));
}

std::string MemoryFile::content() const {
  struct stat status = {};
  FUZZ_REQUIRE(::fstat(fd_, &status) == 0);
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  FUZZ_REQUIRE(::pread(fd_, content.data(), content.size(), 0) ==
               static_cast<ssize_t>(content.size()));
  return content;
}

}  // namespace troupe::fuzz
