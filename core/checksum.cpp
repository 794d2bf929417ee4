#include "troupe/core/checksum.h"

namespace troupe {
namespace {

const detail::Xxh3& xxh3() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return detail::kXxh3Avx2;
#endif
  return detail::kXxh3;
}

}  // namespace

std::uint64_t hash_of(Span<const std::byte> bytes, std::uint64_t seed) {
  return xxh3().hash(bytes.data(), bytes.size(), seed);
}

std::uint32_t checksum_of(Span<const std::byte> bytes) {
  return bytes.empty() ? 0 : static_cast<std::uint32_t>(hash_of(bytes));
}

void Checksum::add(Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (!state_) state_ = std::make_unique<State>();
  if (empty_) xxh3().reset(state_->of_library);
  empty_ = false;
  xxh3().update(state_->of_library, bytes.data(), bytes.size());
}

std::uint32_t Checksum::take() {
  if (empty_) return 0;
  empty_ = true;
  return static_cast<std::uint32_t>(xxh3().digest(state_->of_library));
}

Fingerprint fingerprint_of(Span<const std::byte> bytes) {
  std::uint64_t low_and_high[2];
  xxh3().fingerprint(bytes.data(), bytes.size(), low_and_high);
  return {low_and_high[0], low_and_high[1]};
}

}  // namespace troupe
