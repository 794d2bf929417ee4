// Outbox: what a run reports is told once, whoever of its workers is lost.
//
// All workers of a group add the same records, in the same order. The one that leads tells each at
// once. The others keep them until a boundary of the run shows that the leader had told all that
// was added before it; whoever leads next tells what it has kept, but for what the lost one had
// told already. The pattern is known as a transactional outbox.
#pragma once

#include <deque>
#include <functional>

namespace troupe {

class Outbox {
 public:
  /// Tells a record. `again`: a process that was lost may have told it already. Whoever must have
  /// it once looks whether it is there.
  using Tell = std::function<void(bool again)>;
  enum class Role {
    leader,
    follower,  // it may lead one day
    silent,    // it never will
  };

  explicit Outbox(Role role) : role_(role) {}

  [[nodiscard]] bool leads() const { return role_ == Role::leader; }
  [[nodiscard]] bool may_lead() const { return role_ != Role::silent; }

  /// Whether what is added from now on may have been told by an earlier start of the run, which
  /// came as far as this one resumes.
  void repeat(bool repeats) { repeats_ = repeats; }
  /// Tells the record, keeps it, or forgets it.
  void add(Tell tell);
  /// This worker leads from now on, and tells what it has kept. Up to the next boundary what is
  /// added is told again, too: the lost leader may have been ahead.
  void lead();
  /// The leader had told all that was added so far, as a boundary has shown.
  void acknowledge();

 private:
  Role role_;
  bool repeats_ = false;
  bool takes_over_ = false;
  std::deque<Tell> kept_;
};

}  // namespace troupe
