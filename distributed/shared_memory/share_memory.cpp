// Descriptors go along a binomial tree from rank 0, as a broadcast's bytes do: a rank receives from
// the rank without its lowest set bit and hands on to those that set one of the bits below it.
#include "distributed/shared_memory/share_memory.h"

#include <poll.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "distributed/collectives/call.h"
#include "distributed/collectives/collectives.h"
#include "distributed/membership/verdict.h"

namespace troupe {
namespace {

constexpr std::size_t kMaxProblemBytes = 4096;

class Sharing {
 public:
  Sharing(CallEnvironment& environment, const SharingTerms& terms, const Deadline& deadline)
      : environment_(environment), terms_(terms), deadline_(deadline) {
    header_.operation = Operation::all_gather;
  }

  // Every rank's problem; `shared` gets the lowest rank's, if any has one.
  bool agree(const std::string& mine, SharedMemory& shared) {
    header_.sequence = environment_.state.entered.load(std::memory_order_relaxed) + 1;
    if (terms_.on_enter) terms_.on_enter(header_);
    Call call(environment_, header_, deadline_);
    const std::string cut = mine.substr(0, kMaxProblemBytes);
    const auto all =
        ring_all_gather(call, as_bytes(Span<const char>(cut.data(), cut.size())), kMaxProblemBytes);
    for (std::size_t rank = 0; rank < all.size() && shared.problem.empty(); ++rank) {
      if (all[rank].empty()) continue;
      shared.culprit = static_cast<int>(rank);
      shared.problem =
          text(cluster().members[rank].task, ": ",
               std::string(reinterpret_cast<const char*>(all[rank].data()), all[rank].size()));
    }
    return shared.problem.empty();
  }

  void hand_over(int fd, int peer) {
    Link& link = environment_.links.at(peer);
    until_moved(link, POLLOUT, [&] { return link.send_file(fd); });
  }

  [[nodiscard]] UniqueFd receive(int peer) {
    Link& link = environment_.links.at(peer);
    UniqueFd file;
    until_moved(link, POLLIN, [&] { return link.receive_file(file); });
    return file;
  }

 private:
  [[nodiscard]] const Cluster& cluster() const { return environment_.state.cluster; }

  template <class Move>
  void until_moved(Link& link, short event, const Move& move) {
    const auto where = [this] { return place_of_failure(cluster(), header_); };
    for (;;) {
      const IoResult result = move();
      if (result.state == IoResult::State::moved) return;
      if (result.state == IoResult::State::closed) {
        settle_broken(environment_, {link.peer(), "connection closed"}, where());
      }
      if (environment_.state.failed()) environment_.state.raise_if_failed(where());
      if (deadline_.expired()) {
        settle(environment_,
               {FailureKind::timeout, link.peer(),
                text("shared memory was not handed over by ",
                     cluster().members[static_cast<std::size_t>(link.peer())].task, " within ",
                     deadline_.limit_seconds(), " s."),
                "look for what holds that worker up.", kExitPeerLost},
               where());
      }
      pollfd waits[] = {{environment_.state.wake_fd(), POLLIN, 0}, {link.fd(), event, 0}};
      const auto limit = std::min(deadline_.remaining(), std::chrono::milliseconds(1'000));
      ::poll(waits, 2, static_cast<int>(limit.count()));
    }
  }

  CallEnvironment& environment_;
  const SharingTerms& terms_;
  const Deadline& deadline_;
  FrameHeader header_;
};

// The end that connected objects: it may know why, and one of both is enough.
std::string link_objection(const CallEnvironment& environment) {
  for (const auto& [peer, link] : environment.links) {
    if (link.is_local() || peer > environment.state.cluster.rank) continue;
    return text("its link to ",
                environment.state.cluster.members[static_cast<std::size_t>(peer)].task,
                " is no Unix socket");
  }
  return "";
}

// What `get` makes goes to `segment`, or what it throws into the sentence that is returned.
template <class Get>
std::string try_to_get(std::shared_ptr<SharedSegment>& segment, const Get& get) {
  try {
    segment = get();
    return "";
  } catch (const Error& error) {
    std::string cause = error.cause();
    if (!cause.empty() && cause.back() == '.') cause.pop_back();
    return cause;
  }
}

}  // namespace

SharedMemory share_memory(CallEnvironment& environment, const SharingTerms& terms,
                          const Deadline& deadline) {
  const std::uint64_t bytes = terms.bytes;
  const CollectiveLabel label(text("shared memory of ", bytes, " bytes"));
  const int rank = environment.state.cluster.rank;
  const int world_size = environment.state.cluster.world_size();
  const std::uint64_t limit = environment.state.options.shared_memory_limit;
  Sharing sharing(environment, terms, deadline);
  SharedMemory shared;

  std::string problem = terms.objection.empty() ? link_objection(environment) : terms.objection;
  if (problem.empty() && bytes > limit) {
    problem = text(bytes, " bytes are more than the ", limit, " that may be shared");
  }
  if (problem.empty() && rank == 0) {
    problem = try_to_get(shared.segment, [&] { return SharedSegment::make(bytes); });
    if (shared.segment && terms.lay_out) terms.lay_out(*shared.segment);
  }
  if (!sharing.agree(problem, shared)) return {nullptr, shared.culprit, shared.problem};

  int lowest = 1;  // the lowest set bit, or the first power of two >= W at rank 0
  while (lowest < world_size && (rank & lowest) == 0) lowest *= 2;
  if (rank != 0) {
    UniqueFd file = sharing.receive(rank - lowest);
    problem = try_to_get(shared.segment, [&] {
      if (file.get() < 0) throw DataError("nothing was handed over.", "");
      return SharedSegment::adopt(std::move(file), bytes);
    });
  }
  // A rank that waits for it must get something, if only a byte without a file: none hands on what
  // it lacks.
  for (int distance = lowest / 2; distance >= 1; distance /= 2) {
    if (rank + distance < world_size) {
      sharing.hand_over(shared.segment ? shared.segment->fd() : -1, rank + distance);
    }
  }
  if (!sharing.agree(problem, shared)) return {nullptr, shared.culprit, shared.problem};
  shared.segment->close_fd();
  return shared;
}

}  // namespace troupe
