#include "troupe/distributed/membership/door.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

// The end of an old connection may be read so long after the hello on its successor.
constexpr std::chrono::milliseconds kTwinGrace{300};
constexpr std::chrono::milliseconds kTwinLook{50};
constexpr std::chrono::milliseconds kDifferenceGrace{2'000};
constexpr int kMaxRefusalLines = 10;

}  // namespace

Door::Door(boost::asio::io_context& context, const Cluster& cluster, const JoinTerms& terms,
           ControlLines& lines, DoorKeeper& keeper)
    : cluster_(cluster),
      own_(make_hello(cluster, terms)),
      signature_(join_lines(terms.model_signature)),
      lines_(lines),
      keeper_(keeper),
      look_(context),
      difference_limit_(context) {}

void Door::take(Introduction first) {
  const std::string proven = first.from.identity.client;
  const auto connection = Connection::make(std::move(first.from));
  if (first.fault == FrameFault::bad_version) {
    const std::uint16_t theirs = first.header.version;
    return refuse(connection,
                  {describe_versions(theirs, cluster_.task()) + ".", kSameBuild, Retry::no},
                  std::min(theirs, kProtocolVersion));  // an older one reads no newer frame
  }
  const auto hello = hello_from(Span<const std::byte>(first.payload));
  if (!hello || hello->task != proven) return connection->close();  // malformed, or somebody else's
  if (const auto refusal = objection(first.header, *hello)) return refuse(connection, *refusal);
  if (is_taken(hello->rank)) return wait_for_seat(connection, *hello);
  let_in(connection, *hello);
}

std::optional<Refusal> Door::objection(const FrameHeader& header, const Hello& hello) const {
  const std::string& me = cluster_.task();
  if (header.generation != cluster_.generation) {
    // A newer worker has found a process that is about to go; an older one is a leftover.
    const bool newer = header.generation > cluster_.generation;
    return Refusal{text(me, " runs start ", cluster_.generation, " of this job, ", hello.task,
                        " belongs to start ", header.generation, "."),
                   newer ? "wait for the restart of " + me + "." : "end this leftover process.",
                   newer ? Retry::yes : Retry::no};
  }
  if (hello.fingerprint != own_.fingerprint) {
    return Refusal{text(hello.task, " has another cluster description than ", me, " (from ",
                        cluster_.origin, ")."),
                   "give every process the same list of tasks and addresses.", Retry::no};
  }
  const int first = cluster_.is_server() ? 0 : 1;  // the chief does not knock at its own door
  if (hello.rank < first || hello.rank >= cluster_.world_size() ||
      hello.task != cluster_.member(hello.rank).task) {
    return Refusal{
        text("no worker of this cluster is ", hello.task, " with rank ", hello.rank, "."),
        "give each process the task that it has in the cluster.", Retry::no};
  }
  return keeper_.objection(hello);
}

Refusal Door::already_taken(const Hello& hello, Retry retry) const {
  return {text(hello.task, " is already taken by the process at ",
               lines_.at(hello.rank)->peer_text(), "."),
          "give each process its own task.", retry};
}

void Door::refuse(const std::shared_ptr<Connection>& connection, const Refusal& refusal,
                  std::uint16_t version) {
  if (++refusals_logged_ <= kMaxRefusalLines) {
    log_warning("refused a worker from ", connection->peer_text(), ": ", refusal.cause,
                refusals_logged_ == kMaxRefusalLines ? " Further refusals are not logged." : "");
  }
  FrameHeader header = lines_.header_of(FrameType::refuse);
  header.version = version;
  connection->send(header, to_json(refusal));
  connection->close_after_writes();
}

bool Door::is_taken(int rank) const { return lines_.has(rank) && !lines_.is_retired(rank); }

// One per seat: a crowd that knocks for the same one costs no more than a worker.
void Door::wait_for_seat(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  const auto from = std::chrono::steady_clock::now() + kTwinGrace;
  const bool is_first = twins_.try_emplace(hello.rank, Twin{connection, hello, from}).second;
  if (!is_first) return refuse(connection, already_taken(hello, Retry::yes));
  log_info(hello.task, " is here again while the process at ", lines_.at(hello.rank)->peer_text(),
           " is still connected; it waits for that one's end.");
  if (twins_.size() == 1) look_again();
}

void Door::look_again() {
  std::vector<Twin> settled;
  for (auto next = twins_.begin(); next != twins_.end();) {
    const auto& [rank, twin] = *next;
    const bool holder_lives = lines_.has_been_heard_since(rank, twin.listens_from);
    const bool waits = is_taken(rank) && !holder_lives && !keeper_.objection(twin.hello);
    // Who waits as long as silence may last must not take us for silent.
    if (waits) twin.connection->send(lines_.header_of(FrameType::heartbeat), "");
    if (!waits) settled.push_back(twin);
    next = waits ? std::next(next) : twins_.erase(next);
  }
  for (const Twin& twin : settled) settle(twin);
  if (twins_.empty()) return keeper_.proceed();
  run_after(look_, kTwinLook, [this] { look_again(); });
}

void Door::settle(const Twin& twin) {
  if (const auto refusal = keeper_.objection(twin.hello)) return refuse(twin.connection, *refusal);
  if (is_taken(twin.hello.rank)) {
    return refuse(twin.connection, already_taken(twin.hello, Retry::no));
  }
  let_in(twin.connection, twin.hello);
}

void Door::let_in(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  if (lines_.failed()) {  // too late: it learns why
    connection->send(lines_.header_of(FrameType::abort), to_json(*lines_.failure()));
    return connection->close_after_writes();
  }
  lines_.take(hello.rank, connection);
  log_debug(hello.task, " joined from ", connection->peer_text());
  keeper_.on_seated(hello);
  compare_terms(hello);
}

void Door::compare_terms(const Hello& hello) {
  const auto differ = [&](const std::string& what, const TermsDifference& difference) {
    keeper_.on_difference(hello.rank,
                          terms_differ(hello.rank, what, difference, cluster_.task(), hello.task));
  };
  if (const auto difference = first_difference(own_.must_match, hello.must_match)) {
    return differ("the setting " + difference->name, *difference);
  }
  if (hello.signature_hash == own_.signature_hash) return keeper_.on_agreed(hello.rank);
  if (signature_.size() > max_payload_bytes(FrameType::signature)) {
    return differ("the model", {"model", "signature " + own_.signature_hash,
                                "signature " + hello.signature_hash});
  }
  // The worker finds the line and reports it: it has both lists then.
  lines_.send(hello.rank, FrameType::signature, signature_);
}

void Door::note_difference(const Failure& failure) {
  if (difference_) return;
  difference_ = failure;
  run_after(difference_limit_, kDifferenceGrace,
            [this] { lines_.fail(*difference_, FrameType::abort); });
}

}  // namespace troupe
