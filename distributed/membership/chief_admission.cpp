// The chief's door: who may join, whether all that joined train the same thing, and who is missing.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/membership/chief.h"

namespace troupe {
namespace {

using ErrorCode = boost::system::error_code;

// Workers that have yet to come are waited for this long after terms were found to differ, so that
// they too learn the reason instead of finding nobody.
constexpr std::chrono::milliseconds kTermsGrace{2'000};
constexpr int kMaxRefusalLines = 10;
constexpr std::chrono::seconds kProgressEvery{5};
// Who is missing changes with everyone who comes. Told each time, W workers would cost W^2 messages
// of up to W names: on a link of 1.25 MB/s 128 workers took 4 s for that, and 256 lost each other.
// Source: docs/scale.md.
constexpr std::chrono::milliseconds kAnnouncePause{50};

Failure start_timeout_failure(int culprit, const std::string& who, double limit) {
  return {FailureKind::rendezvous, culprit,
          text("the group did not come together in ", limit, " s (limit --start-timeout): ", who,
               " did not join."),
          "start every task, and check that each can reach the chief's address.", kExitPeerLost};
}

}  // namespace

void Chief::take(FirstFrame first) {
  if (first.fault == FrameFault::none && first.header.type == FrameType::link_hello) {
    return links_.take({std::move(first.socket), first.header, std::move(first.payload)});
  }
  const auto connection = Connection::make(std::move(first.socket));
  std::optional<Hello> hello;
  if (first.fault == FrameFault::none) hello = hello_from(Span<const std::byte>(first.payload));
  if (first.fault == FrameFault::none && !hello) return connection->close();  // malformed
  if (const auto refusal = objection(first.header, hello)) return refuse(connection, *refusal);
  if (const auto failure = failing_ ? failing_ : state_.failure()) {  // too late: it learns why
    FrameHeader header;
    header.type = FrameType::abort;
    header.generation = state_.cluster.generation;
    connection->send(header, to_json(*failure));
    return connection->close_after_writes();
  }
  admit(connection, *hello);
}

std::optional<Refusal> Chief::objection(const FrameHeader& header,
                                        const std::optional<Hello>& hello) const {
  if (!hello) {
    return Refusal{
        text("it speaks another protocol version than the chief (", kProtocolVersion, ")."),
        "run the same build of Troupe on every worker.", Retry::no};
  }
  const Cluster& cluster = state_.cluster;
  if (header.generation != cluster.generation) {
    // A newer worker has found a chief that is about to go; an older one is a leftover.
    const bool newer = header.generation > cluster.generation;
    return Refusal{text("the chief runs start ", cluster.generation, " of this job, ", hello->task,
                        " belongs to start ", header.generation, "."),
                   newer ? "wait for the chief's restart." : "end this leftover process.",
                   newer ? Retry::yes : Retry::no};
  }
  if (hello->fingerprint != fingerprint_) {
    return Refusal{text(hello->task, " has another cluster description than the chief ", task(0),
                        " (from ", cluster.origin, ")."),
                   "give every worker the same list of tasks and addresses.", Retry::no};
  }
  if (hello->rank < 1 || hello->rank >= cluster.world_size() || hello->task != task(hello->rank)) {
    return Refusal{
        text("no worker of this cluster is ", hello->task, " with rank ", hello->rank, "."),
        "give each process the task that it has in the cluster.", Retry::no};
  }
  const Peer& holder = peers_[static_cast<std::size_t>(hello->rank)];
  if (stage_ != Stage::gathering && !failing()) {
    return Refusal{text("the group has already started without this process as ", hello->task, "."),
                   "stop the whole group, then start it again.", Retry::yes};
  }
  if (holder.connection && holder.connection->open()) {
    return Refusal{text(hello->task, " is already taken by the process at ",
                        holder.connection->peer_text(), "."),
                   "give each process its own task.", Retry::no};
  }
  return std::nullopt;
}

void Chief::refuse(const std::shared_ptr<Connection>& connection, const Refusal& refusal) {
  if (++refusals_logged_ <= kMaxRefusalLines) {
    log_warning("refused a worker from ", connection->peer_text(), ": ", refusal.cause,
                refusals_logged_ == kMaxRefusalLines ? " Further refusals are not logged." : "");
  }
  FrameHeader header;
  header.type = FrameType::refuse;
  header.generation = state_.cluster.generation;
  connection->send(header, to_json(refusal));
  connection->close_after_writes();
}

void Chief::admit(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  const int rank = hello.rank;
  peer(rank) = Peer{};
  peer(rank).connection = connection;
  peer(rank).hello = hello;
  liveness_.heard(rank, std::chrono::steady_clock::now());
  connection->start(
      [this, rank](const FrameHeader& header, const std::vector<std::byte>& payload) {
        on_frame(rank, header, payload);
      },
      [this, rank](const std::string& reason, FrameFault) { on_closed(rank, reason); });
  log_debug(task(rank), " joined from ", connection->peer_text());
  compare_terms(rank);
  announce_soon();
  proceed_if_complete();
}

void Chief::compare_terms(int rank) {
  const Hello& hello = peer(rank).hello;
  if (const auto difference = first_difference(terms_.must_match, hello.must_match)) {
    return note_difference(rank, "the setting " + difference->name, *difference);
  }
  if (hello.signature_hash == signature_hash_) return;
  const std::string lines = join_lines(terms_.model_signature);
  if (lines.size() > max_payload_bytes(FrameType::signature)) {
    return note_difference(
        rank, "the model",
        {"model", "signature " + signature_hash_, "signature " + hello.signature_hash});
  }
  peer(rank).awaits_difference = true;  // the worker finds the line, it has both lists then
  send(rank, FrameType::signature, lines);
}

void Chief::note_difference(int rank, const std::string& what, const TermsDifference& difference) {
  if (terms_failure_) return;
  terms_failure_ =
      Failure{FailureKind::config, rank,
              text(task(0), " and ", task(rank), " differ in ", what, ": '", difference.chief,
                   "' on ", task(0), ", '", difference.worker, "' on ", task(rank), "."),
              "give every worker the same options and the same program.", kExitUsage};
  grace_.expires_after(kTermsGrace);
  grace_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled && terms_failure_) fail(*terms_failure_);
  });
}

void Chief::proceed_if_complete() {
  if (stage_ != Stage::gathering || !missing().empty() || failing()) return;
  const bool awaits =
      std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.awaits_difference; });
  if (awaits) return;
  if (terms_failure_) return fail(*terms_failure_);
  welcome_all();
}

void Chief::on_start_timeout() {
  if (stage_ == Stage::running || failing()) return;
  std::vector<std::string> names;
  std::vector<int> late = missing();
  for (int rank = 0; late.empty() && rank < state_.cluster.world_size(); ++rank) {
    if (!peer(rank).ready) late.push_back(rank);
  }
  for (const int rank : late) {
    names.push_back(describe_member(state_.cluster.members[static_cast<std::size_t>(rank)]));
  }
  const double limit = std::chrono::duration<double>(state_.options.start_timeout).count();
  fail(start_timeout_failure(late.empty() ? 0 : late.front(), join_names(names), limit));
}

void Chief::announce_soon() {
  if (std::exchange(announcing_, true)) return;
  announce_.expires_after(kAnnouncePause);
  announce_.async_wait([this](const ErrorCode& cancelled) {
    announcing_ = false;
    if (!cancelled) announce_missing();
  });
}

void Chief::announce_missing() {
  if (stage_ != Stage::gathering || failing()) return;
  std::vector<std::string> names;
  for (const int rank : missing()) {
    names.push_back(describe_member(state_.cluster.members[static_cast<std::size_t>(rank)]));
  }
  if (names.empty()) return;
  const std::string list = cut_to_fit(join_names(names));
  send_all(FrameType::waiting, list);
  progress_.expires_after(kProgressEvery);
  progress_.async_wait([this, list](const ErrorCode& cancelled) {
    if (cancelled) return;
    using std::chrono::duration_cast;
    using std::chrono::seconds;
    const auto waited = duration_cast<seconds>(std::chrono::steady_clock::now() - began_).count();
    const auto limit = duration_cast<seconds>(state_.options.start_timeout).count();
    log_info("waiting for ", list, " (", waited, " s of ", limit, " s)");
    announce_missing();
  });
}

std::vector<int> Chief::missing() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < state_.cluster.world_size(); ++rank) {
    const auto& connection = peers_[static_cast<std::size_t>(rank)].connection;
    if (!connection || !connection->open()) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace troupe
