#include "distributed/collectives/rank_order.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace troupe {
namespace {

constexpr std::size_t kFew = kMaxOperands;
// A block of all operands is added before the next: partial sums stay in the level-1 cache.
constexpr std::size_t kBlockBytes = 4096;
// Branches of at most kFew ranks need no memory; each doubling above needs one block.
constexpr std::size_t kDepth = 10;
static_assert(kFew << kDepth >= kMaxWorldSize);

struct alignas(64) Block {
  std::array<std::byte, kBlockBytes> bytes;
};

class BlockSum {
 public:
  BlockSum(const Reduction& sum, std::size_t first_byte, std::size_t count)
      : sum_(sum), first_byte_(first_byte), count_(count) {}

  // The left branch goes to `partial`, the right one to `into`: when something is written into what
  // may be an operand, all operands before it have been read.
  void add(std::byte* into, Span<const std::byte* const> operands, Block* partial) const {
    if (operands.size() <= kFew) return add_few(into, operands);
    const std::size_t left = left_branch(operands.size());
    add(partial->bytes.data(), operands.subspan(0, left), partial + 1);
    add(into, operands.subspan(left, operands.size() - left), partial + 1);
    const std::byte* const branches[] = {partial->bytes.data(), into};
    sum_.add(into, branches, 2, count_);
  }

 private:
  void add_few(std::byte* into, Span<const std::byte* const> operands) const {
    std::array<const std::byte*, kFew> blocks{};
    std::transform(operands.begin(), operands.end(), blocks.begin(),
                   [this](const std::byte* operand) { return operand + first_byte_; });
    sum_.add(into, blocks.data(), static_cast<int>(operands.size()), count_);
  }

  const Reduction& sum_;
  std::size_t first_byte_;
  std::size_t count_;
};

}  // namespace

void add_branches(std::byte* into, Span<const std::byte* const> operands, std::size_t count,
                  const Reduction& sum) {
  TROUPE_CHECK(operands.size() <= kMaxWorldSize);
  std::array<Block, kDepth> partial;
  const std::size_t in_block = kBlockBytes / sum.element_bytes;
  for (std::size_t done = 0; done < count; done += in_block) {
    const std::size_t first_byte = done * sum.element_bytes;
    BlockSum(sum, first_byte, std::min(in_block, count - done))
        .add(into + first_byte, operands, partial.data());
  }
}

}  // namespace troupe
