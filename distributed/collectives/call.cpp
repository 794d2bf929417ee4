#include "troupe/distributed/collectives/call.h"

#include <algorithm>
#include <thread>

#include "troupe/core/check.h"
#include "troupe/core/checksum.h"
#include "troupe/core/error.h"
#include "troupe/core/span.h"
#include "troupe/core/spin.h"
#include "troupe/core/text.h"

namespace troupe {

std::uint32_t label_of(const std::string& what) {
  return checksum_of(as_bytes(Span<const char>(what.data(), what.size())));
}

namespace {

template <class Streams>
bool all_done(const Streams& streams) {
  return std::all_of(streams.begin(), streams.end(), [](const auto* s) { return s->done(); });
}

}  // namespace

Call::Call(CallEnvironment& environment, const FrameHeader& header, const Deadline& deadline)
    : environment_(environment),
      streams_(environment.streams),
      header_(header),
      deadline_(deadline) {
  header_.type = FrameType::data;
  header_.rank = static_cast<std::uint32_t>(rank());
  header_.label = CollectiveLabel::of_this_thread();
  header_.generation = environment.state.cluster.generation;
  header_.sequence = environment.state.entered.fetch_add(1, std::memory_order_relaxed) + 1;
  streams_.ports.resize(static_cast<std::size_t>(world_size()));
  streams_.sends.clear();
  streams_.receives.clear();
  if (environment.state.failed()) environment.state.raise_if_failed(where());
}

CallStreams::Port& Call::port(int peer) {
  CallStreams::Port& port = streams_.ports[static_cast<std::size_t>(peer)];
  if (port.link == nullptr) port.link = &environment_.links.at(peer);
  return port;
}

SendStream& Call::send_to(int peer, std::uint64_t payload_bytes) {
  CallStreams::Port& to = port(peer);
  header_.payload_bytes = payload_bytes;
  to.send.begin(*to.link, header_);
  streams_.sends.push_back(&to.send);
  return to.send;
}

ReceiveStream& Call::receive_from(int peer, std::uint64_t payload_bytes) {
  CallStreams::Port& from = port(peer);
  header_.payload_bytes = payload_bytes;
  from.receive.begin(*from.link, header_);
  streams_.receives.push_back(&from.receive);
  return from.receive;
}

void Call::run() {
  try {
    progress_until_done();
  } catch (const Mismatch& mismatch) {
    settle(environment_,
           desynchronised(environment_.state.cluster, header_, mismatch.peer, mismatch.theirs),
           where());
  } catch (const LinkDamaged& damaged) {
    settle(environment_,
           bytes_damaged(environment_.state.cluster, damaged.peer, rank(), damaged.address,
                         " in " + describe_collective(header_)),
           where());
  } catch (const LinkBroken& broken) {
    settle_broken(environment_, broken, where());
  }
  streams_.sends.clear();
  streams_.receives.clear();
}

bool Call::advance() {
  bool moved = false;
  for (SendStream* send : streams_.sends) moved = send->advance(Tail::hold) || moved;
  for (ReceiveStream* receive : streams_.receives) moved = receive->advance() || moved;
  if (moved) return true;
  for (SendStream* send : streams_.sends) moved = send->advance(Tail::flush) || moved;
  return moved;
}

bool Call::done() const { return all_done(streams_.sends) && all_done(streams_.receives); }

void Call::progress_until_done() {
  auto idle_since = Clock::TimePoint::max();
  for (;;) {
    const bool moved = advance();
    if (done()) return;
    check();
    if (moved) {
      idle_since = Clock::TimePoint::max();
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (idle_since == Clock::TimePoint::max()) idle_since = now;
    const auto idle = now - idle_since;
    if (idle < (has_arrived() ? environment_.spin : environment_.arrival_spin)) {
      // The peer may be waiting for this very core.
      if (idle > kAloneSpin) std::this_thread::yield();
      continue;
    }
    sleep();
    idle_since = Clock::TimePoint::max();
  }
}

bool Call::has_arrived() const {
  const auto begun = [](const ReceiveStream* stream) { return stream->begun(); };
  return streams_.receives.empty() ||
         std::any_of(streams_.receives.begin(), streams_.receives.end(), begun);
}

void Call::sleep() {
  std::vector<pollfd>& waits = streams_.waits;
  waits.assign(1, {environment_.state.wake_fd(), POLLIN, 0});
  for (const SendStream* send : streams_.sends) {
    if (!send->done() && send->has_bytes()) waits.push_back({send->link().fd(), POLLOUT, 0});
  }
  for (const ReceiveStream* receive : streams_.receives) {
    if (!receive->done() && receive->has_room()) {
      // A read that found less than a record has emptied TLS's own memory, too.
      waits.push_back({receive->link().fd(), receive->link().read_events(), 0});
    }
  }
  constexpr std::chrono::milliseconds kLongest{60'000};  // poll counts in int
  const auto limit = std::min(deadline_.remaining(), kLongest);
  ::poll(waits.data(), waits.size(), static_cast<int>(limit.count()));
}

void Call::check() {
  if (environment_.state.failed()) environment_.state.raise_if_failed(where());
  if (deadline_.expired()) settle(environment_, timed_out(), where());
}

Failure Call::timed_out() const {
  int peer = rank();
  const char* verb = "waits";
  for (const SendStream* send : streams_.sends) {
    if (!send->done()) peer = send->link().peer(), verb = "could not send all to";
  }
  for (const ReceiveStream* receive : streams_.receives) {
    if (!receive->done()) peer = receive->link().peer(), verb = "still waits for";
  }
  const Cluster& cluster = environment_.state.cluster;
  return troupe::timed_out(cluster, header_, deadline_, peer,
                           text(verb, " ", cluster.member(peer).task));
}

std::string Call::where() const { return place_of_failure(environment_.state.cluster, header_); }

namespace {

// How long a worker waits to hear the chief's verdict before it reports what it saw itself: the
// chief's own grace for a suspicion, and time for two messages on a busy machine.
constexpr std::chrono::milliseconds kVerdictWait{1'000};

/// Throws it; without it, `mine`.
[[noreturn]] void await_verdict(GroupState& state, const Failure& mine, const std::string& where) {
  if (!state.wait_failed(kVerdictWait)) state.fail(mine);
  raise(*state.failure(), state.cluster, where);
}

}  // namespace

std::string describe_collective(const FrameHeader& header) {
  std::string what = text(name_of(header.operation), " #", header.sequence);
  if (header.dtype != DType::none) {
    what += text(" of ", header.total_bytes, " bytes");
    if (header.dtype != DType::bytes) what += text(" of ", name_of(header.dtype));
  }
  if (header.operation == Operation::broadcast) what += text(" with root ", header.root);
  return what;
}

std::string place_of_failure(const Cluster& cluster, const FrameHeader& header) {
  return text(cluster.task(), " was in ", describe_collective(header), ".");
}

Failure desynchronised(const Cluster& cluster, const FrameHeader& mine, int peer,
                       const FrameHeader& theirs) {
  const std::string here = describe_collective(mine);
  const std::string there = describe_collective(theirs);
  const std::string& me = cluster.task();
  const std::string& other = cluster.member(peer).task;
  // One wording, whichever side saw it.
  const std::string both = peer < cluster.rank
                               ? text(other, " is in ", there, ", ", me, " in ", here)
                               : text(me, " is in ", here, ", ", other, " in ", there);
  return {FailureKind::desync, peer, both + (here == there ? " for other values." : "."),
          "every worker must call the same collectives in the same order: look for a branch that "
          "depends on the rank or on data.",
          kExitFailed};
}

Failure timed_out(const Cluster& cluster, const FrameHeader& mine, const Deadline& deadline,
                  int peer, const std::string& wait) {
  return {FailureKind::timeout, peer,
          text(describe_collective(mine), ": after ", deadline.elapsed_seconds(), " s ",
               cluster.task(), " ", wait, " (limit ", deadline.limit_seconds(), " s)."),
          "look for what holds that worker up; raise --timeout if it is only slow.", kExitPeerLost};
}

void settle(CallEnvironment& environment, const Failure& mine, const std::string& where) {
  environment.report(mine);
  await_verdict(environment.state, mine, where);
}

void settle_broken(CallEnvironment& environment, const LinkBroken& broken,
                   const std::string& where) {
  const Cluster& cluster = environment.state.cluster;
  environment.suspect(broken.peer, broken.what);
  await_verdict(environment.state,
                peer_lost(cluster, broken.peer,
                          text("its link to ", cluster.task(), " broke: ", broken.what)),
                where);
}

}  // namespace troupe
