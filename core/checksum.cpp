#include "troupe/core/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {

std::uint64_t hash_of(Span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint32_t checksum_of(Span<const std::byte> bytes) {
  return bytes.empty() ? 0 : static_cast<std::uint32_t>(hash_of(bytes));
}

struct Checksum::State {
  XXH3_state_t of_library;
};

Checksum::Checksum() = default;
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (!state_) state_ = std::make_unique<State>();
  if (empty_) XXH3_64bits_reset(&state_->of_library);
  empty_ = false;
  XXH3_64bits_update(&state_->of_library, bytes.data(), bytes.size());
}

std::uint32_t Checksum::take() {
  if (empty_) return 0;
  empty_ = true;
  return static_cast<std::uint32_t>(XXH3_64bits_digest(&state_->of_library));
}

Fingerprint fingerprint_of(Span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

}  // namespace troupe
