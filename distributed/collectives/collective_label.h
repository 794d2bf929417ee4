// CollectiveLabel: what a collective is for, so that two that are alike but mean other values (the
// gradients of two optimisers of one size) are told apart as any other mismatch is.
//
// It is a thread's own state, not an argument: what is summed is known far above the engines, and
// every collective that an engine makes for it (a barrier before another library's sum) has it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace troupe {

/// 32 bits of what a collective is for.
[[nodiscard]] std::uint32_t label_of(const std::string& what);

/// While it lives, collectives that this thread enters are for `what`, the same on every rank; 32
/// bits of it travel with them.  Throws, by those collectives: DesyncError where ranks differ.
class CollectiveLabel {
 public:
  explicit CollectiveLabel(std::uint32_t label) : former_(std::exchange(present, label)) {}
  explicit CollectiveLabel(const std::string& what) : CollectiveLabel(label_of(what)) {}
  ~CollectiveLabel() { present = former_; }
  CollectiveLabel(const CollectiveLabel&) = delete;
  CollectiveLabel& operator=(const CollectiveLabel&) = delete;

  /// This thread's; 0 where there is none.
  [[nodiscard]] static std::uint32_t of_this_thread() { return present; }

 private:
  static inline thread_local std::uint32_t present = 0;
  const std::uint32_t former_;
};

}  // namespace troupe
