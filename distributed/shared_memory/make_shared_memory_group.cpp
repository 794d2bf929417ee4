#include "troupe/distributed/shared_memory/make_shared_memory_group.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/collectives/collectives.h"

namespace troupe {
namespace {

/// The same on every rank: either all have the segment, or `problem` says who has not and why.
struct SharedMemory {
  std::shared_ptr<SharedSegment> segment;
  int culprit = 0;      // of a problem
  std::string problem;  // "worker/1: ...", without a final stop
};

constexpr std::size_t kMaxProblemBytes = 4096;

class Sharing {
 public:
  /// `group` hears of each collective over links; null: it is yet to be made.
  Sharing(CallEnvironment& environment, SharedMemoryGroup* group, const Deadline& deadline)
      : environment_(environment), group_(group), deadline_(deadline) {
    header_.operation = Operation::all_gather;
  }

  // Every rank's problem; `shared` gets the lowest rank's, if any has one.
  bool agree(const std::string& mine, SharedMemory& shared) {
    header_.sequence = environment_.state.entered.load(std::memory_order_relaxed) + 1;
    if (group_ != nullptr) group_->record(header_);
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
                text("shared memory was not handed over by ", cluster().member(link.peer()).task,
                     " within ", deadline_.limit_seconds(), " s."),
                "look for what holds that worker up.", kExitPeerLost},
               where());
      }
      pollfd waits[] = {{environment_.state.wake_fd(), POLLIN, 0}, {link.fd(), event, 0}};
      const auto limit = std::min(deadline_.remaining(), std::chrono::milliseconds(1'000));
      ::poll(waits, 2, static_cast<int>(limit.count()));
    }
  }

  CallEnvironment& environment_;
  SharedMemoryGroup* const group_;
  const Deadline& deadline_;
  FrameHeader header_;
};

// The end that connected objects: it may know why, and one of both is enough.
std::string link_objection(const CallEnvironment& environment) {
  for (const auto& [peer, link] : environment.links) {
    if (link.is_local() || peer > environment.state.cluster.rank) continue;
    return text("its link to ", environment.state.cluster.member(peer).task, " is no Unix socket");
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

/// `bytes` of memory for `group`, or for one that is yet to be made (null), which rank 0 lays out;
/// `objection`: why this rank cannot take part, or "".
/// Rank 0 makes the memory and it is handed along the links; all agree whether they have it.
/// Descriptors go along a binomial tree from rank 0, as a broadcast's bytes do: a rank receives
/// from the rank without its lowest set bit and hands on to those that set one of the bits below
/// it. Collective: yes, over links; where one is TCP nobody shares.  Blocks: at most `deadline`.
/// Throws: as a collective.
SharedMemory share_memory(CallEnvironment& environment, SharedMemoryGroup* group,
                          std::uint64_t bytes, const std::string& objection,
                          const Deadline& deadline) {
  const CollectiveLabel label(text("shared memory of ", bytes, " bytes"));
  const int rank = environment.state.cluster.rank;
  const int world_size = environment.state.cluster.world_size();
  const std::uint64_t limit = environment.state.options.shared_memory_limit;
  Sharing sharing(environment, group, deadline);
  SharedMemory shared;

  std::string problem = objection.empty() ? link_objection(environment) : objection;
  if (problem.empty() && bytes > limit) {
    problem = text(bytes, " bytes are more than the ", limit, " that may be shared");
  }
  if (problem.empty() && rank == 0) {
    problem = try_to_get(shared.segment, [&] { return SharedSegment::make(bytes); });
    if (shared.segment && group == nullptr) GroupSegment::lay_out(*shared.segment, world_size);
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

// Copies of ranks begin at different places of a page: where all began at the same one, reading one
// copy would wait for writes to another (4 KiB aliasing).
constexpr std::size_t kPage = 4096;
constexpr std::size_t kStagger = 1024 + 64;

std::string objection_of(const GroupState& state, const JoinedLinks& joined) {
  const int all = state.cluster.world_size();
  if (joined.workers_on_this_machine < all) {
    return text("only ", joined.workers_on_this_machine, " of the ", all,
                " workers are on its machine");
  }
  if (all > kMaxSharingRanks) {
    return text("more than ", kMaxSharingRanks, " workers do not share memory");
  }
  return joined.no_unix;
}

[[noreturn]] void refuse(CallEnvironment& environment, int culprit, const std::string& problem) {
  settle(environment,
         {FailureKind::config, culprit,
          text("--transport shm: the workers cannot share memory: ", problem, "."),
          "use --transport auto, or correct that.", kExitUsage},
         "");
}

void log_choice(const GroupState& state, const std::string& what, LogLevel level = LogLevel::info) {
  if (state.cluster.rank == 0) log(level, text("values travel between workers by ", what));
}

/// As this worker's own links are: at the end that was called, nobody knows why one is TCP.
std::string links_in_words(const CallEnvironment& environment, const JoinedLinks& joined) {
  const GroupState& state = environment.state;
  const std::string tcp = state.credentials.encrypt ? "TCP with TLS" : "TCP";
  if (state.options.transport == Transport::tcp) return text(tcp, " (--transport tcp)");
  if (!joined.no_unix.empty()) return text(tcp, " (", joined.no_unix, ")");
  const auto is_local = [](const auto& entry) { return entry.second.is_local(); };
  const auto& links = environment.links;
  const bool some = std::any_of(links.begin(), links.end(), is_local);
  const bool all = joined.workers_on_this_machine == state.cluster.world_size() &&
                   std::all_of(links.begin(), links.end(), is_local);
  return all ? "Unix sockets" : (some ? text("Unix sockets and ", tcp) : tcp);
}

}  // namespace

std::unique_ptr<SharedMemoryGroup> make_shared_memory_group(CallEnvironment& environment,
                                                            const JoinedLinks& joined,
                                                            const Deadline& deadline) {
  const GroupState& state = environment.state;
  const Transport transport = state.options.transport;
  const std::string objection = objection_of(state, joined);
  const bool all_here = joined.workers_on_this_machine == state.cluster.world_size() &&
                        state.cluster.world_size() <= kMaxSharingRanks;  // as every rank sees it
  if (transport == Transport::shared_memory && !all_here) {
    refuse(environment, state.cluster.rank, text(state.cluster.task(), ": ", objection));
  }
  const bool may_share = transport == Transport::automatic || transport == Transport::shared_memory;
  if (!may_share || !all_here) {
    log_choice(state, links_in_words(environment, joined));
    return nullptr;
  }
  const int world_size = state.cluster.world_size();
  SharedMemory shared =
      share_memory(environment, nullptr, GroupSegment::bytes_for(world_size), objection, deadline);
  if (!shared.segment && transport == Transport::shared_memory) {
    refuse(environment, shared.culprit, shared.problem);
  }
  if (!shared.segment) {
    log_choice(state, text(links_in_words(environment, joined),
                           "; they do not share memory: ", shared.problem));
    return nullptr;
  }
  log_choice(state, text("shared memory (all ", world_size, " are on this machine)"),
             LogLevel::debug);  // the fastest there is
  return std::make_unique<SharedMemoryGroup>(environment, std::move(shared.segment));
}

std::shared_ptr<std::byte> make_shared_buffer(SharedMemoryGroup& group,
                                              CallEnvironment& environment, std::size_t bytes,
                                              const Deadline& deadline) {
  const auto world_size = static_cast<std::size_t>(environment.state.cluster.world_size());
  const std::size_t stride = (bytes + kPage - 1) / kPage * kPage + kStagger;
  SharedMemory shared = share_memory(environment, &group, stride * world_size, "", deadline);
  if (shared.segment) return group.add_buffer(std::move(shared.segment), stride);
  log_choice(environment.state,
             text("copies where they lie outside shared memory: ", shared.problem));
  return nullptr;
}

}  // namespace troupe
