// One start of a group on several nodes: which have ended, and why. No connections here, only
// decisions, so that every one of them can be tested.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/launcher/nodes/launch_direction.h"

namespace troupe {

class LaunchRound {
 public:
  /// A round of which `nodes` take part.
  explicit LaunchRound(int nodes) : has_ended_(static_cast<std::size_t>(nodes)) {}

  /// A part has ended, or is being stopped, for the reason that it gives. Returns whether the
  /// others now have to be stopped.
  [[nodiscard]] bool on_part(int node, const PartEnd& part, bool has_ended);
  /// A node cannot be reached any longer. `how`: "no heartbeat for 5 s (limit 5 s)". Likewise.
  [[nodiscard]] bool lost(int node, const std::string& name, const std::string& how);

  /// A node takes no part any longer, or again; nobody is blamed for it.
  void leaves(int node) { has_ended_[static_cast<std::size_t>(node)] = true; }
  void returns(int node) { has_ended_[static_cast<std::size_t>(node)] = false; }

  [[nodiscard]] bool is_complete() const;
  /// A reason for the end of all is known.
  [[nodiscard]] bool is_ending() const { return order_.has_value(); }
  [[nodiscard]] bool has(int node) const { return !has_ended_[static_cast<std::size_t>(node)]; }
  /// Of the whole group: why it ended, as far as is known by now. Failures with a reason of their
  /// own come first, those of workers that only lost others last.
  [[nodiscard]] const PartEnd& verdict() const { return verdict_; }

 private:
  [[nodiscard]] bool blame(const PartEnd& part, int order);

  std::vector<bool> has_ended_;  // by node
  PartEnd verdict_;              // of node 0 until one is blamed
  std::optional<int> order_;     // of the one that is blamed; unset: none is
};

}  // namespace troupe
