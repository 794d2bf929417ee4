#include "core/crc32c.h"

#include <array>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe {
namespace {

// The polynomial's bits, lowest power first, as the checksum's are.
constexpr std::uint32_t kPolynomial = 0x82F63B78;

constexpr std::uint32_t times_x(std::uint32_t crc) {
  return (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
}

// Eight bytes at a time: table k has what a byte becomes when k more bytes follow it.
// Source: Kounavis & Berry 2005, "A systematic approach to building high performance software-based
// CRC generators" (slicing by 8).
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = times_x(crc);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t one_less = tables[k - 1][byte];
      tables[k][byte] = (one_less >> 8) ^ tables[0][one_less & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t by_tables(Span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      next ^= kTables[7 - i][at[i] ^ ((crc >> (8 * i)) & 0xff)] ^ kTables[3 - i][at[4 + i]];
    }
    crc = next;
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)

// Folding: 128 bits that are followed by n more bits may be replaced by their product with x^n
// modulo the polynomial, which fits into the 128 bits that lie there; the checksum is the same. So
// four accumulators run over the bytes, each a fixed distance ahead of itself, and what is left of
// them at the end goes through the instruction for CRC-32C.
// Source: Gopal et al. 2009, "Fast CRC computation for generic polynomials using PCLMULQDQ
// instruction" (Intel).

/// The factor x^bits for one of the two products, whose bits come out one place too low.
constexpr long long power_of_x(int bits) {
  std::uint32_t power = 0x80000000;  // x^0
  for (int i = 0; i < bits; ++i) power = times_x(power);
  return static_cast<long long>(power) << 1;
}

/// What the two halves of 128 bits are multiplied by for a distance of `bits`.
constexpr long long first_factor(int bits) { return power_of_x(bits + 32); }
constexpr long long second_factor(int bits) { return power_of_x(bits - 32); }

/// The rest, by the crc32 instruction; `crc` is not inverted.
__attribute__((target("sse4.2"))) std::uint64_t by_words(std::uint64_t crc, const std::byte* at,
                                                         std::size_t left) {
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  for (; left > 0; ++at, --left) {
    crc = _mm_crc32_u8(static_cast<std::uint32_t>(crc), std::to_integer<unsigned char>(*at));
  }
  return crc;
}

__attribute__((target("pclmul,sse4.2"))) inline __m128i load_128(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

__attribute__((target("pclmul,sse4.2"))) inline __m128i fold_128(__m128i ahead, __m128i factors,
                                                                 __m128i here) {
  const __m128i low = _mm_clmulepi64_si128(ahead, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(ahead, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), here);
}

__attribute__((target("pclmul,sse4.2"))) std::uint32_t by_128_bits(Span<const std::byte> bytes,
                                                                   std::uint32_t before) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  if (left < 128) return static_cast<std::uint32_t>(~by_words(~before, at, left));
  const __m128i by_four = _mm_set_epi64x(second_factor(4 * 128), first_factor(4 * 128));
  const __m128i by_one = _mm_set_epi64x(second_factor(128), first_factor(128));
  __m128i a = _mm_xor_si128(load_128(at), _mm_cvtsi32_si128(static_cast<int>(~before)));
  __m128i b = load_128(at + 16);
  __m128i c = load_128(at + 32);
  __m128i d = load_128(at + 48);
  for (at += 64, left -= 64; left >= 64; at += 64, left -= 64) {
    a = fold_128(a, by_four, load_128(at));
    b = fold_128(b, by_four, load_128(at + 16));
    c = fold_128(c, by_four, load_128(at + 32));
    d = fold_128(d, by_four, load_128(at + 48));
  }
  d = fold_128(fold_128(fold_128(a, by_one, b), by_one, c), by_one, d);
  std::array<std::byte, sizeof(d)> folded;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(folded.data()), d);
  const std::uint64_t crc = by_words(0, folded.data(), folded.size());
  return static_cast<std::uint32_t>(~by_words(crc, at, left));
}

// The same with several lanes of 128 bits in an accumulator, for each width that processors have.
#define TROUPE_WIDE __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))
#define TROUPE_MULTIPLY _mm256_clmulepi64_epi128
namespace bits_256 {
using Lanes = __m256i;
#include "core/crc32c_wide.inc"
}  // namespace bits_256
#undef TROUPE_WIDE
#undef TROUPE_MULTIPLY

#define TROUPE_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
#define TROUPE_MULTIPLY _mm512_clmulepi64_epi128
namespace bits_512 {
using Lanes = __m512i;
#include "core/crc32c_wide.inc"
}  // namespace bits_512
#undef TROUPE_WIDE
#undef TROUPE_MULTIPLY

std::vector<Crc32cVersion> find_versions() {
  std::vector<Crc32cVersion> versions;
  const bool has_128 = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
  const bool has_wide = has_128 && __builtin_cpu_supports("vpclmulqdq");
  if (has_wide && __builtin_cpu_supports("avx512f")) {
    versions.push_back({"512 bits and three times 64 at a time", bits_512::by_lanes_and_words});
    versions.push_back({"512 bits at a time", bits_512::by_lanes});
  }
  if (has_wide && __builtin_cpu_supports("avx2")) {
    versions.push_back({"256 bits and three times 64 at a time", bits_256::by_lanes_and_words});
    versions.push_back({"256 bits at a time", bits_256::by_lanes});
  }
  if (has_128) versions.push_back({"128 bits at a time", by_128_bits});
  versions.push_back({"tables", by_tables});
  return versions;
}

#else

std::vector<Crc32cVersion> find_versions() { return {{"tables", by_tables}}; }

#endif

}  // namespace

Span<const Crc32cVersion> crc32c_versions() {
  static const std::vector<Crc32cVersion> versions = find_versions();
  return Span<const Crc32cVersion>(versions);
}

std::uint32_t crc32c(Span<const std::byte> bytes, std::uint32_t before) {
  static const auto compute = crc32c_versions()[0].compute;
  return compute(bytes, before);
}

}  // namespace troupe
