#include "distributed/shared_memory/make_shared_memory_group.h"

#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/membership/verdict.h"
#include "distributed/shared_memory/share_memory.h"

namespace troupe {
namespace {

// Copies of ranks begin at different places of a page: where all began at the same one, reading one
// copy would wait for writes to another (4 KiB aliasing).
constexpr std::size_t kPage = 4096;
constexpr std::size_t kStagger = 1024 + 64;

std::string objection_of(const GroupState& state, const Neighbourhood& neighbourhood) {
  const int all = state.cluster.world_size();
  if (neighbourhood.workers_on_this_machine < all) {
    return text("only ", neighbourhood.workers_on_this_machine, " of the ", all,
                " workers are on its machine");
  }
  if (all > kMaxSharingRanks) {
    return text("more than ", kMaxSharingRanks, " workers do not share memory");
  }
  return neighbourhood.no_unix;
}

[[noreturn]] void refuse(CallEnvironment& environment, int culprit, const std::string& problem) {
  settle(environment,
         {FailureKind::config, culprit,
          text("--transport shm: the workers cannot share memory: ", problem, "."),
          "use --transport auto, or correct that.", kExitUsage},
         "");
}

void log_choice(const GroupState& state, const std::string& what) {
  if (state.cluster.rank == 0) log_info("values travel between workers by ", what);
}

std::string links_in_words(const GroupState& state, const Neighbourhood& neighbourhood) {
  if (state.options.transport == Transport::tcp) return "TCP (--transport tcp)";
  if (!neighbourhood.no_unix.empty()) return text("TCP (", neighbourhood.no_unix, ")");
  const bool some = neighbourhood.workers_on_this_machine > 1;
  const bool all = neighbourhood.workers_on_this_machine == state.cluster.world_size();
  return all ? "Unix sockets" : (some ? "Unix sockets and TCP" : "TCP");
}

}  // namespace

std::unique_ptr<SharedMemoryGroup> make_shared_memory_group(CallEnvironment& environment,
                                                            const Neighbourhood& neighbourhood,
                                                            const Deadline& deadline) {
  const GroupState& state = environment.state;
  const Transport transport = state.options.transport;
  const std::string objection = objection_of(state, neighbourhood);
  const bool all_here = neighbourhood.workers_on_this_machine == state.cluster.world_size() &&
                        state.cluster.world_size() <= kMaxSharingRanks;  // as every rank sees it
  if (transport == Transport::shared_memory && !all_here) {
    refuse(environment, state.cluster.rank, text(state.cluster.task(), ": ", objection));
  }
  const bool may_share = transport == Transport::automatic || transport == Transport::shared_memory;
  if (!may_share || !all_here) {
    log_choice(state, links_in_words(state, neighbourhood));
    return nullptr;
  }
  const int world_size = state.cluster.world_size();
  SharingTerms terms;
  terms.bytes = GroupSegment::bytes_for(world_size);
  terms.objection = objection;
  terms.lay_out = [world_size](SharedSegment& made) { GroupSegment::lay_out(made, world_size); };
  SharedMemory shared = share_memory(environment, terms, deadline);
  if (!shared.segment && transport == Transport::shared_memory) {
    refuse(environment, shared.culprit, shared.problem);
  }
  if (!shared.segment) {
    log_choice(state, text(links_in_words(state, neighbourhood),
                           "; they do not share memory: ", shared.problem));
    return nullptr;
  }
  log_choice(state, text("shared memory (all ", world_size, " are on this machine)"));
  return std::make_unique<SharedMemoryGroup>(environment, std::move(shared.segment));
}

std::shared_ptr<std::byte> make_shared_buffer(SharedMemoryGroup& group,
                                              CallEnvironment& environment, std::size_t bytes,
                                              const Deadline& deadline) {
  const auto world_size = static_cast<std::size_t>(environment.state.cluster.world_size());
  const std::size_t stride = (bytes + kPage - 1) / kPage * kPage + kStagger;
  SharingTerms terms;
  terms.bytes = stride * world_size;
  terms.on_enter = [&group](const FrameHeader& header) { group.record(header); };
  SharedMemory shared = share_memory(environment, terms, deadline);
  if (shared.segment) return group.add_buffer(std::move(shared.segment), stride);
  log_choice(environment.state,
             text("copies where they lie outside shared memory: ", shared.problem));
  return nullptr;
}

}  // namespace troupe
