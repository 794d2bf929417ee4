// SharedSegment: memory that several processes of one user map at the same time.
//
// It is a file without a name (memfd): processes that map it get the descriptor (Link::send_file).
// So nothing is left behind however processes die, nobody else can open it, and the size of
// /dev/shm does not limit it. Its pages are reserved when it is made and its size is sealed: no
// access can fail later for want of memory, or because a peer cut the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "troupe/core/span.h"
#include "troupe/core/unique_fd.h"

namespace troupe {

class SharedSegment {
 public:
  /// Zeroed memory, so far this process's alone.  Throws: EnvironmentError naming what the system
  /// does not grant.
  [[nodiscard]] static std::shared_ptr<SharedSegment> make(std::uint64_t bytes);
  /// Maps what another process made and handed over.
  /// Throws: DataError when the file is not such a segment of exactly `bytes`, made by this user.
  [[nodiscard]] static std::shared_ptr<SharedSegment> adopt(UniqueFd fd, std::uint64_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Aligned to a page.
  [[nodiscard]] Span<std::byte> memory() const { return memory_; }
  /// To hand over; -1 after close_fd().
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The memory stays mapped; nobody can be handed it any more.
  void close_fd() { fd_.reset(); }

 private:
  explicit SharedSegment(UniqueFd fd);
  void map(std::uint64_t bytes);

  UniqueFd fd_;
  Span<std::byte> memory_;
};

}  // namespace troupe
