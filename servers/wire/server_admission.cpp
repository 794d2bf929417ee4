// A server's door: who may take part, and from which clock on.
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "servers/wire/server_process.h"

namespace troupe {
namespace {

using ErrorCode = boost::system::error_code;

// As at the chief's door: workers that have yet to come learn the reason instead of finding nobody.
constexpr std::chrono::milliseconds kTermsGrace{2'000};
// A worker that was killed and started again at once: the end of its old connection may be read
// after the hello on its new one.
constexpr std::chrono::milliseconds kTwinGrace{300};
constexpr int kMaxRefusalLines = 10;

}  // namespace

void ServerProcess::take(FirstFrame first) {
  if (first.fault == FrameFault::none && first.header.type != FrameType::hello) return;
  if (first.fault == FrameFault::none && !first.payload.empty()) {
    const auto hello = hello_from(Span<const std::byte>(first.payload));
    if (hello && hello->rank < cluster_.world_size() && taken(hello->rank)) {
      const auto timer = std::make_shared<boost::asio::steady_timer>(context_, kTwinGrace);
      const auto twin = std::make_shared<FirstFrame>(std::move(first));
      return timer->async_wait([this, timer, twin](const ErrorCode&) { decide(std::move(*twin)); });
    }
  }
  decide(std::move(first));
}

bool ServerProcess::taken(int rank) const {
  const Seat& holder = seat(rank);
  return holder.connection && holder.connection->open() && !holder.left;
}

void ServerProcess::decide(FirstFrame first) {
  const auto connection = Connection::make(std::move(first.socket));
  std::optional<Hello> hello;
  if (first.fault == FrameFault::none) hello = hello_from(Span<const std::byte>(first.payload));
  if (first.fault == FrameFault::none && !hello) return connection->close();  // malformed
  if (const auto refusal = objection(first.header, hello)) return refuse(connection, *refusal);
  if (failing_) {  // too late: it learns why
    FrameHeader header;
    header.type = FrameType::abort;
    header.generation = cluster_.generation;
    connection->send(header, to_json(*failing_));
    return connection->close_after_writes();
  }
  admit(connection, *hello);
}

std::optional<Refusal> ServerProcess::objection(const FrameHeader& header,
                                                const std::optional<Hello>& hello) const {
  const std::string& me = cluster_.task();
  if (!hello) {
    return Refusal{
        text("it speaks another protocol version than ", me, " (", kProtocolVersion, ")."),
        "run the same build of Troupe in every process.", Retry::no};
  }
  if (header.generation != cluster_.generation) {
    const bool newer = header.generation > cluster_.generation;
    return Refusal{text(me, " runs start ", cluster_.generation, " of this job, ", hello->task,
                        " belongs to start ", header.generation, "."),
                   newer ? "wait for the server's restart." : "end this leftover process.",
                   newer ? Retry::yes : Retry::no};
  }
  if (hello->fingerprint != fingerprint_) {
    return Refusal{text(hello->task, " has another cluster description than ", me, "."),
                   "give every process the same cluster.", Retry::no};
  }
  if (hello->rank >= cluster_.world_size() || hello->task != task(hello->rank)) {
    return Refusal{
        text("no worker of this cluster is ", hello->task, " with rank ", hello->rank, "."),
        "give each process the task that it has in the cluster.", Retry::no};
  }
  const Seat& holder = seat(hello->rank);
  if (taken(hello->rank)) {
    // A process that was killed with its machine leaves a connection that is only silent.
    const auto silence = liveness_.silence(hello->rank, std::chrono::steady_clock::now());
    const bool silent = silence > 2 * options_.heartbeat_interval;
    return Refusal{text(hello->task, " is already taken by the process at ",
                        holder.connection->peer_text(), "."),
                   "give each process its own task.", silent ? Retry::yes : Retry::no};
  }
  if (keeper_.finished()) {
    return Refusal{text("training has ended."), "start the job again to go on.", Retry::no};
  }
  return std::nullopt;
}

void ServerProcess::refuse(const std::shared_ptr<Connection>& connection, const Refusal& refusal) {
  if (++refusals_logged_ <= kMaxRefusalLines) {
    log_warning("refused a worker from ", connection->peer_text(), ": ", refusal.cause,
                refusals_logged_ == kMaxRefusalLines ? " Further refusals are not logged." : "");
  }
  FrameHeader header;
  header.type = FrameType::refuse;
  header.generation = cluster_.generation;
  connection->send(header, to_json(refusal));
  connection->close_after_writes();
}

void ServerProcess::admit(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  const int rank = hello.rank;
  const bool was_lost = seat(rank).was_lost;
  seat(rank) = Seat{};
  seat(rank).connection = connection;
  seat(rank).was_lost = was_lost;
  liveness_.heard(rank, std::chrono::steady_clock::now());
  const Connection* const who = connection.get();
  // What an older connection of this rank still says does not count.
  connection->start(
      [this, rank, who](const FrameHeader& header, std::vector<std::byte> payload) {
        if (seat(rank).connection.get() == who) on_frame(rank, header, std::move(payload));
      },
      [this, rank, who](const std::string& reason, FrameFault) {
        if (seat(rank).connection.get() == who) on_closed(rank, reason);
      });
  if (const auto difference = first_difference(terms_.must_match, hello.must_match)) {
    return note_difference(
        rank, {FailureKind::config, rank,
               text(cluster_.task(), " and ", task(rank), " differ in the setting ",
                    difference->name, ": '", difference->chief, "' on ", cluster_.task(), ", '",
                    difference->worker, "' on ", task(rank), "."),
               "give every process the same options and the same program.", kExitUsage});
  }
  if (hello.signature_hash != signature_hash_) {  // the worker finds the line: it has both lists
    const std::string lines = join_lines(terms_.model_signature);
    if (lines.size() <= max_payload_bytes(FrameType::signature)) {
      return send(rank, FrameType::signature, 0, lines);
    }
    return note_difference(rank,
                           {FailureKind::config, rank,
                            text(cluster_.task(), " and ", task(rank), " differ in the model."),
                            "give every process the same program.", kExitUsage});
  }
  connection->set_limits(bulk_limits(model_, cluster_.server));
  log_debug(task(rank), " joined from ", connection->peer_text());
  if (!is_clock()) return tell_clock(rank, 0);
  seat(rank).awaits_clock = true;
  examine();
}

// Before training one worker with other terms means that the job was started wrongly; later it is
// that worker's own affair.
void ServerProcess::note_difference(int rank, const Failure& failure) {
  send(rank, FrameType::abort, 0, to_json(failure));
  if (keeper_.launched() || terms_failure_) return;
  terms_failure_ = failure;
  grace_.expires_after(kTermsGrace);
  grace_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled && terms_failure_) fail(*terms_failure_);
  });
}

void ServerProcess::tell_clock(int rank, std::int64_t clock) {
  seat(rank).awaits_clock = false;
  send(rank, FrameType::entry, static_cast<std::uint64_t>(clock), "");
}

void ServerProcess::on_enter(int rank, const FrameHeader& header) {
  clocks_.enter(rank, static_cast<std::int64_t>(header.sequence));
  send(rank, FrameType::entered, 0, "");
  if (!keeper_.launched()) return examine();
  const auto step = keeper_.step();
  log_info(task(rank), seat(rank).was_lost ? " has joined again at step " : " joins at step ",
           step);
  keeper_.statistics().joined_again.push_back(text(task(rank), " at step ", step));
  send(rank, FrameType::launched, static_cast<std::uint64_t>(step), "");
  examine();
}

void ServerProcess::launch_if_complete() {
  if (!pending_launch_ || !absent().empty()) return;
  keeper_.launch(*std::exchange(pending_launch_, std::nullopt));
  start_limit_.cancel();
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    send(rank, FrameType::launched, static_cast<std::uint64_t>(keeper_.step()), "");
  }
}

std::vector<int> ServerProcess::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    if (!clocks_.live(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace troupe
