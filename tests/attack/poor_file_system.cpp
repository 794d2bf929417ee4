// Preloaded into a program: its file systems cannot make directories durable, or have no locks.
//
//   POOR_FSYNC=EINVAL    the number of the error that fsync of a directory ends with
//   POOR_FLOCK=ENOLCK    the number of the error that flock ends with
#include <dlfcn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace {

int error_of(const char* variable) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? 0 : std::atoi(given);
}

}  // namespace

extern "C" {

int fsync(int fd) {
  using Call = int (*)(int);
  struct stat found = {};
  const int error = error_of("POOR_FSYNC");
  if (error != 0 && fstat(fd, &found) == 0 && S_ISDIR(found.st_mode)) {
    errno = error;
    return -1;
  }
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, "fsync"))(fd);
}

int flock(int fd, int operation) {
  using Call = int (*)(int, int);
  const int error = error_of("POOR_FLOCK");
  if (error != 0) {
    errno = error;
    return -1;
  }
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, "flock"))(fd, operation);
}

}  // extern "C"
