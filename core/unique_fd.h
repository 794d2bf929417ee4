// UniqueFd: an open file descriptor with one owner, which closes it and leaves errno unchanged.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace troupe {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  /// -1: none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Hands it over: the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    const int error = errno;  // of the call that the owner is about to report
    if (fd_ >= 0) ::close(fd_);
    errno = error;
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace troupe
