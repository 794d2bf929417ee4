// Checksums off, for measuring what they cost: the product has no such switch. The linker leads
// this program's calls of Checksum::add() here (bench/CMakeLists.txt).
#pragma once

#include <cstdint>

namespace troupe::bench {

/// While it lives, a Checksum of this process is 0, at no cost. Every process of a group has one,
/// or none: otherwise they see damage. One at a time.
class NoChecksums {
 public:
  NoChecksums();
  ~NoChecksums();
  NoChecksums(const NoChecksums&) = delete;
  NoChecksums& operator=(const NoChecksums&) = delete;

  /// Calls of Checksum::add() that this one spared.
  [[nodiscard]] std::uint64_t spared() const;
};

}  // namespace troupe::bench
