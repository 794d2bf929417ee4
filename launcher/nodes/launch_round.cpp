#include "troupe/launcher/nodes/launch_round.h"

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr int kOwnReason = 0;
constexpr int kInterrupted = 1;
constexpr int kLostNode = 2;
constexpr int kLostPeer = 3;

int order_of(const PartEnd& part) {
  if (part.signal != 0) return kInterrupted;
  return part.exit_code == kExitPeerLost ? kLostPeer : kOwnReason;
}

}  // namespace

bool LaunchRound::blame(const PartEnd& part, int order) {
  const bool first = !order_;
  if (first || order < *order_) {
    const bool can_recover = verdict_.can_recover;
    verdict_ = part;
    verdict_.can_recover = verdict_.can_recover && can_recover;
    order_ = order;
  }
  if (!part.can_recover) verdict_.can_recover = false;
  return first;
}

bool LaunchRound::on_part(int node, const PartEnd& part, bool has_ended) {
  if (!has(node)) return false;
  if (has_ended) leaves(node);
  if (part.failed || part.signal != 0) return blame(part, order_of(part));
  if (has_ended && node == 0 && !order_) verdict_ = part;  // the evaluator's code, if that failed
  return false;
}

bool LaunchRound::lost(int node, const std::string& name, const std::string& how) {
  if (!has(node)) return false;
  has_ended_[static_cast<std::size_t>(node)] = true;
  return blame({kExitPeerLost, true, false, 0, text(name, " is lost: ", how)}, kLostNode);
}

bool LaunchRound::is_complete() const {
  return std::all_of(has_ended_.begin(), has_ended_.end(), [](bool ended) { return ended; });
}

}  // namespace troupe
