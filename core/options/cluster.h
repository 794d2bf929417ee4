// Cluster: which processes form the group, and the chief's address. Plain data; cli/cluster/ fills
// it in from flags, TF_CONFIG or launcher variables, and distributed/ joins the group.
//
// Vocabulary: a *worker* is a process; its *rank* counts from 0; the *chief* is rank 0; a *task* is
// the name a cluster file gives a worker ("chief/0", "worker/1").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Host name or address literal, and a TCP port (0: the system chooses).
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

/// One worker of the group as the configuration knows it.
struct Member {
  std::string task;                 // "worker/1"; unique in the group
  std::optional<Endpoint> address;  // unset: it connects to the chief and reports where it listens
};

namespace detail {

/// A socket that the launcher opened and passed on. Copies share one socket, and the first to take
/// it owns it: a second group of this process never uses a descriptor that the first has closed.
class InheritedSocket {
 public:
  InheritedSocket() = default;
  explicit InheritedSocket(int descriptor)
      : descriptor_(std::make_shared<std::atomic<int>>(descriptor)) {}

  /// The descriptor, once; -1: there is none, or it was taken already.
  [[nodiscard]] int take() const { return descriptor_ ? descriptor_->exchange(-1) : -1; }
  /// Whether it can still be taken.
  [[nodiscard]] bool is_there() const { return descriptor_ && *descriptor_ >= 0; }

 private:
  std::shared_ptr<std::atomic<int>> descriptor_;
};

/// Which process of the job evaluates its checkpoints, as far as this one knows.
enum class Evaluator {
  none,      // no other process belongs to the job: this one trains and evaluates
  possible,  // there may be one beside the group
  expected,  // one runs beside the group
  self       // this process, which belongs to no group
};

}  // namespace detail

/// A group of workers and this process's place in it.
/// Invariants (checked by cli/cluster/ before anything starts): members is not empty, 0 <= rank <
/// size, task names differ, and members[0].address is set if there are several members and no
/// servers. A server's rank is 0 and has no meaning; the evaluator's group has one member, itself.
struct Cluster {
  int rank = 0;
  std::vector<Member> members = {{"worker/0", std::nullopt}};  // by rank; [0] is the chief
  std::vector<Member> servers;   // parameter servers by index, each with an address; usually none
  int server = -1;               // this process's index among them; -1: not a server
  std::uint64_t generation = 0;  // which start of this job this is; a stale process is refused
  /// Of rank 0, of a server, or of each worker of an elastic group.
  detail::InheritedSocket listener;
  detail::InheritedSocket rounds;  // the line to an elastic group's rendezvous
  /// Of a server started by `troupe run`: where it reads who is lost and does not come again.
  detail::InheritedSocket losses;
  bool joins = false;       // this process waits until a group that trains admits it
  int on_this_machine = 0;  // workers of the group, by the launcher's count; 0: unknown
  detail::Evaluator evaluator = detail::Evaluator::none;
  std::string origin = "local";  // where this came from, for messages: "TF_CONFIG", "torchrun", ...

  [[nodiscard]] int world_size() const { return static_cast<int>(members.size()); }
  /// The workers', by rank.
  [[nodiscard]] std::vector<std::string> tasks() const {
    std::vector<std::string> all;
    for (const Member& one : members) all.push_back(one.task);
    return all;
  }
  [[nodiscard]] const Member& member(int of_rank) const {
    return members[static_cast<std::size_t>(of_rank)];
  }
  [[nodiscard]] bool is_server() const { return server >= 0; }
  [[nodiscard]] bool is_evaluator() const { return evaluator == detail::Evaluator::self; }
  [[nodiscard]] bool is_chief() const { return rank == 0 && !is_server() && !is_evaluator(); }
  [[nodiscard]] const std::string& task() const {
    return is_server() ? servers[static_cast<std::size_t>(server)].task : member(rank).task;
  }
};

}  // namespace troupe
