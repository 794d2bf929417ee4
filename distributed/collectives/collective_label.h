// CollectiveLabel: what a collective is for, so that two that are alike but mean other values (the
// gradients of two optimisers of one size) are told apart as any other mismatch is.
//
// It is a thread's own state, not an argument: what is summed is known far above the engines, and
// every collective that an engine makes for it (a barrier before another library's sum) has it.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// While it lives, collectives that this thread enters are for `what`, the same on every rank; 32
/// bits of it travel with them.  Throws, by those collectives: DesyncError where ranks differ.
class CollectiveLabel {
 public:
  explicit CollectiveLabel(const std::string& what);
  ~CollectiveLabel();
  CollectiveLabel(const CollectiveLabel&) = delete;
  CollectiveLabel& operator=(const CollectiveLabel&) = delete;

 private:
  const std::uint32_t former_;
};

/// This thread's; 0 where there is none.
[[nodiscard]] std::uint32_t collective_label();

}  // namespace troupe
