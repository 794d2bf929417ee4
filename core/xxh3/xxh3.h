// XXH3's functions as xxHash's header compiles them for one kind of processor (xxh3.inc).
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::detail {

struct Xxh3 {
  std::uint64_t (*hash)(const void* bytes, std::size_t size, std::uint64_t seed);
  void (*fingerprint)(const void* bytes, std::size_t size, std::uint64_t* low_and_high);
  void (*reset)(void* state);
  void (*update)(void* state, const void* bytes, std::size_t size);
  std::uint64_t (*digest)(const void* state);
};

/// For every processor of this architecture.
extern const Xxh3 kXxh3;
/// With AVX2; on other architectures the same as kXxh3. Source: docs/performance.md, "Checksums".
extern const Xxh3 kXxh3Avx2;

/// Of XXH3_state_t; each file that compiles xxh3.inc checks it.
inline constexpr std::size_t kXxh3StateBytes = 576;
inline constexpr std::size_t kXxh3StateAlignment = 64;

}  // namespace troupe::detail
