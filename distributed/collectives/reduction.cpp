// Compiled with -O3 in every build type (distributed/CMakeLists.txt): g++ vectorises these loops,
// and element-wise sums of vectors round as the scalar ones do, whatever the vectors' length.

#include "troupe/distributed/collectives/reduction.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "troupe/core/check.h"

// The same loops for the longest vectors of this processor; chosen once, when a Reduction is made.
#if defined(__x86_64__)
#define TROUPE_FOR_AVX2 __attribute__((target("avx2")))
#endif

namespace troupe {
namespace {

// No element depends on another one ("ivdep"): `into` is an operand or overlaps none. clang does
// not know the word, and compares the addresses before a loop.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-pragmas"
#endif
template <class Value>
[[gnu::always_inline]] inline void add_elements(std::byte* into, const std::byte* const* operands,
                                                int operand_count, std::size_t count) {
  const auto operand = [&](int i) { return reinterpret_cast<const Value*>(operands[i]); };
  auto* const out = reinterpret_cast<Value*>(into);
  const Value* const a = operand(0);
  const Value* const b = operand(operand_count > 1 ? 1 : 0);
  const Value* const c = operand(operand_count > 2 ? 2 : 0);
  const Value* const d = operand(operand_count > 3 ? 3 : 0);
  switch (operand_count) {
    case 1:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) out[i] = a[i];
      break;
    case 2:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
      break;
    case 3:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) out[i] = (a[i] + b[i]) + c[i];
      break;
    case kMaxOperands:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = (a[i] + b[i]) + (c[i] + d[i]);
      }
      break;
    default:
      TROUPE_CHECK(operand_count >= 1 && operand_count <= kMaxOperands);
  }
}

template <class Value>
void add_portable(std::byte* into, const std::byte* const* operands, int operand_count,
                  std::size_t count) {
  add_elements<Value>(into, operands, operand_count, count);
}

#if defined(TROUPE_FOR_AVX2)
template <class Value>
TROUPE_FOR_AVX2 void add_avx2(std::byte* into, const std::byte* const* operands, int operand_count,
                              std::size_t count) {
  add_elements<Value>(into, operands, operand_count, count);
}
#endif

// A block of all operands is added before the next: partial sums stay in the level-1 cache.
constexpr std::size_t kBlockBytes = 4096;
// Each level of the tree needs one block, and two leaves need none.
constexpr std::size_t kDepth = 11;
static_assert(std::size_t{2} << kDepth >= kMaxWorldSize);

/// Whether Reduction::add takes these parts in their order: (a + b) + c, (a + b) + (c + d).
bool can_add_at_once(const TreeCut& cut, int first, int last) {
  const int count = last - first;
  return count <= 2 || (count <= kMaxOperands && cut.middle(first, last) == first + 2);
}

struct alignas(64) Block {
  std::array<std::byte, kBlockBytes> bytes;
};

struct BlockSum {
  const Reduction& sum;
  const TreeCut& cut;
  Span<const std::byte* const> operands;
  std::size_t first_byte;
  std::size_t count;

  // The left branch goes to `partial`, the right one to `into`: when something is written into what
  // may be an operand, all operands before it have been read.
  void add(std::byte* into, int first, int last, Block* partial) const {
    if (can_add_at_once(cut, first, last)) {
      return add_few(into, operands.subspan(static_cast<std::size_t>(first),
                                            static_cast<std::size_t>(last - first)));
    }
    const int middle = cut.middle(first, last);
    add(partial->bytes.data(), first, middle, partial + 1);
    add(into, middle, last, partial + 1);
    const std::byte* const branches[] = {partial->bytes.data(), into};
    sum.add(into, branches, 2, count);
  }

  void add_few(std::byte* into, Span<const std::byte* const> few) const {
    std::array<const std::byte*, kMaxOperands> blocks{};
    std::transform(few.begin(), few.end(), blocks.begin(),
                   [this](const std::byte* operand) { return operand + first_byte; });
    sum.add(into, blocks.data(), static_cast<int>(few.size()), count);
  }
};

}  // namespace

template <class T>
Reduction sum_of() {
  // Signed overflow is undefined, and the bits are the same.
  using Value = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  constexpr DType kReal = std::is_same_v<T, float> ? DType::float32 : DType::float64;
  auto* add = add_portable<Value>;
#if defined(TROUPE_FOR_AVX2)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) add = add_avx2<Value>;
#endif
  return {std::is_integral_v<T> ? DType::int64 : kReal, sizeof(Value), add};
}
template Reduction sum_of<float>();
template Reduction sum_of<double>();
template Reduction sum_of<std::int64_t>();

void add_along_tree(std::byte* into, Span<const std::byte* const> operands, std::size_t count,
                    const Reduction& sum, const TreeCut& cut) {
  const int parts = cut.parts();
  TROUPE_CHECK(operands.size() == static_cast<std::size_t>(parts) &&
               operands.size() <= kMaxWorldSize);
  if (can_add_at_once(cut, 0, parts)) return sum.add(into, operands.data(), parts, count);
  std::array<Block, kDepth> partial;
  const std::size_t in_block = kBlockBytes / sum.element_bytes;
  for (std::size_t done = 0; done < count; done += in_block) {
    const std::size_t first_byte = done * sum.element_bytes;
    BlockSum{sum, cut, operands, first_byte, std::min(in_block, count - done)}.add(
        into + first_byte, 0, parts, partial.data());
  }
}

}  // namespace troupe
