#include "bench/checksums.h"

#include <atomic>
#include <cstddef>

#include "troupe/core/checksum.h"
#include "troupe/core/span.h"

namespace troupe::bench {
namespace {

std::atomic<bool> off{false};
std::atomic<std::uint64_t> spared_calls{0};

}  // namespace

// The names that --wrap=SYMBOL gives to the function and to what takes its place.
void real_add(Checksum* sum, Span<const std::byte> bytes) asm(
    "__real__ZN6troupe8Checksum3addENS_4SpanIKSt4byteEE");
void wrapped_add(Checksum* sum, Span<const std::byte> bytes) asm(
    "__wrap__ZN6troupe8Checksum3addENS_4SpanIKSt4byteEE");

void wrapped_add(Checksum* sum, Span<const std::byte> bytes) {
  if (!off.load(std::memory_order_relaxed)) return real_add(sum, bytes);
  spared_calls.fetch_add(1, std::memory_order_relaxed);
}

NoChecksums::NoChecksums() {
  spared_calls = 0;
  off = true;
}
NoChecksums::~NoChecksums() { off = false; }
std::uint64_t NoChecksums::spared() const { return spared_calls; }

}  // namespace troupe::bench
