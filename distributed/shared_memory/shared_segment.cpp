#include "troupe/distributed/shared_memory/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which Debian 12's glibc does not name

[[noreturn]] void throw_not_granted(const char* what, std::uint64_t bytes, int error) {
  throw EnvironmentError(text("the system grants no ", bytes, " bytes of shared memory (", what,
                              ": ", std::generic_category().message(error), ")."),
                         "free memory, or raise the limit of this container.");
}

// Without this a page that is missing later would be a SIGBUS in the middle of a sum.
void reserve(int fd, std::uint64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error != 0) throw_not_granted("posix_fallocate", bytes, error);
}

/// Files have huge pages only on request, whatever the system's setting, and then for everyone who
/// maps them. Where the kernel grants none, or is older than 6.1, nothing changes.
void ask_for_huge_pages(Span<std::byte> memory) {
  const std::size_t bytes = memory.size() / kHugePage * kHugePage;
  if (bytes > 0) (void)::madvise(memory.data(), bytes, kCollapse);
}

/// Addresses for `bytes` that begin where a huge page may: those of files do not by themselves.
void* reserve_addresses(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + page - 1) / page * page;
  void* const range = ::mmap(nullptr, used + kHugePage, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw_not_granted("mmap", bytes, errno);
  auto* const first = static_cast<std::byte*>(range);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(first) % kHugePage;
  const std::size_t before = beyond == 0 ? 0 : kHugePage - beyond;
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + used, kHugePage - before);
  return first + before;
}

}  // namespace

SharedSegment::SharedSegment(UniqueFd fd) : fd_(std::move(fd)) {}

std::shared_ptr<SharedSegment> SharedSegment::make(std::uint64_t bytes) {
  UniqueFd created(::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = created.get();
  if (fd < 0) throw_not_granted("memfd_create", bytes, errno);
  std::shared_ptr<SharedSegment> made(new SharedSegment(std::move(created)));
  if (::fchmod(fd, S_IRUSR | S_IWUSR) != 0) throw_not_granted("fchmod", bytes, errno);
  reserve(fd, bytes);
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) throw_not_granted("F_ADD_SEALS", bytes, errno);
  made->map(bytes);
  ask_for_huge_pages(made->memory_);
  return made;
}

std::shared_ptr<SharedSegment> SharedSegment::adopt(UniqueFd handed, std::uint64_t bytes) {
  const int fd = handed.get();
  std::shared_ptr<SharedSegment> taken(new SharedSegment(std::move(handed)));
  struct stat facts {};
  const bool fits =
      ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid() &&
      static_cast<std::uint64_t>(facts.st_size) == bytes && ::fcntl(fd, F_GET_SEALS) == kSeals;
  if (!fits) {
    throw DataError(text("what was handed over is no sealed memory of ", bytes, " bytes."),
                    "run the same build of Troupe on every worker.");
  }
  taken->map(bytes);
  return taken;
}

void SharedSegment::map(std::uint64_t bytes) {
  void* const place = reserve_addresses(bytes);
  // All pages at once, not one fault after the other in the first sums.
  void* const at = ::mmap(place, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd_.get(), 0);
  if (at == MAP_FAILED) {
    const int error = errno;
    ::munmap(place, bytes);
    throw_not_granted("mmap", bytes, error);
  }
  memory_ = {static_cast<std::byte*>(at), bytes};
}

SharedSegment::~SharedSegment() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

}  // namespace troupe
