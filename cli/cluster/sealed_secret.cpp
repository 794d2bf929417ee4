#include "troupe/cli/cluster/sealed_secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

UniqueFd seal(const Secret& secret) {
  UniqueFd file(memfd_create("troupe-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const Span<const std::byte> bytes = secret.bytes();
  if (file.get() < 0 ||
      write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {  // NOLINT: POSIX is variadic
    throw EnvironmentError(text("cannot make a file in memory: ", std::strerror(errno), "."),
                           "free memory, or raise the limit of open files (ulimit -n).");
  }
  return file;
}

bool is_sealed_secret(int descriptor) {
  if (descriptor <= 2) return false;
  const int seals = fcntl(descriptor, F_GET_SEALS);  // NOLINT: POSIX is variadic
  return seals >= 0 && (seals & kSeals) == kSeals;
}

std::shared_ptr<const Secret> read_sealed(int descriptor) {
  struct stat status {};
  if (!is_sealed_secret(descriptor) || fstat(descriptor, &status) != 0 ||
      status.st_size > static_cast<off_t>(Secret::kMaxBytes)) {
    throw ConfigError(
        text(kSecretDescriptorVariable, " is ", descriptor,
             ", but troupe run's secret is not there: a program in between closed it."),
        "let that program pass descriptors on (Python: close_fds=False).");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  const ssize_t count = pread(descriptor, bytes.data(), bytes.size(), 0);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return std::make_shared<const Secret>(std::move(bytes));
}

}  // namespace troupe
