// AddingSink: bytes of a message that are added to values of this rank as they come.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>

#include "distributed/collectives/stream.h"

namespace troupe {

class AddingSink final : public Sink {
 public:
  /// into[i] += from[i] for `count` elements; both aligned to the element, not overlapping.
  using Add = std::function<void(std::byte* into, const std::byte* from, std::size_t count)>;

  /// Arriving bytes wait in `scratch`, which sinks of one message may share. `add` outlives this.
  /// With `to`, sums are sent on.
  AddingSink(Span<std::byte> into, std::size_t element_bytes, Span<std::byte> scratch,
             const Add& add, SendStream* to = nullptr)
      : into_(into), element_bytes_(element_bytes), scratch_(scratch), add_(&add), to_(to) {}

  [[nodiscard]] Span<std::byte> room() override {
    const std::size_t room = std::min(scratch_.size(), into_.size() - done_) - carried_;
    return scratch_.subspan(carried_, room);
  }
  void take(std::size_t bytes) override {
    const std::size_t have = carried_ + bytes;
    const std::size_t whole = have / element_bytes_ * element_bytes_;
    (*add_)(into_.data() + done_, scratch_.data(), whole / element_bytes_);
    carried_ = have - whole;
    if (carried_ > 0) std::memmove(scratch_.data(), scratch_.data() + whole, carried_);
    if (to_ != nullptr) to_->append(into_.subspan(done_, whole));
    done_ += whole;
  }

 private:
  Span<std::byte> into_;
  std::size_t element_bytes_;
  Span<std::byte> scratch_;
  const Add* add_;
  SendStream* to_;
  std::size_t done_ = 0;     // bytes of into_ that are sums
  std::size_t carried_ = 0;  // bytes of an incomplete element at the front of scratch_
};

}  // namespace troupe
