#include "servers/wire/server_links.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/membership/chief.h"
#include "distributed/membership/control_messages.h"
#include "distributed/membership/join_terms.h"
#include "net/address.h"
#include "servers/wire/row_messages.h"

namespace troupe {
namespace {

using ErrorCode = boost::system::error_code;

// After a refusal that may pass, such as a server that is about to be restarted.
constexpr std::chrono::milliseconds kRefusedPause{1'000};
constexpr std::chrono::milliseconds kReportFlush{200};
constexpr std::chrono::milliseconds kFlushPoll{1};

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ServerLinks::ServerLinks(const Cluster& cluster, const GroupOptions& options,
                         const ServedModel& model, JoinTerms terms,
                         boost::asio::io_context& context, ClientInbox& inbox)
    : cluster_(cluster),
      options_(options),
      model_(model),
      terms_(std::move(terms)),
      fingerprint_(cluster_fingerprint(cluster)),
      signature_hash_(signature_hash(terms_.model_signature)),
      context_(context),
      inbox_(inbox),
      liveness_(static_cast<int>(cluster.servers.size()), options.heartbeat_timeout,
                std::chrono::steady_clock::now()),
      tick_(context),
      flush_(context),
      links_(cluster.servers.size()) {
  for (int server = 0; server < count(); ++server) {
    const Endpoint& at = *member(server).address;
    link(server).connector = std::make_unique<Connector>(context, at.host, at.port);
  }
}

void ServerLinks::join() {
  for (int server = 0; server < count(); ++server) {
    reach(server, std::chrono::milliseconds(0), "");
  }
  on_tick();
}

void ServerLinks::reach(int server, std::chrono::milliseconds pause, const std::string& why) {
  ServerLink& to = link(server);
  if (to.connection) to.connection->close();
  to.connection = nullptr;
  to.stage = Stage::reaching;
  inbox_.note(server, why);
  to.connector->start(pause, why, [this, server](boost::asio::ip::tcp::socket socket) {
    on_connected(server, std::move(socket));
  });
}

void ServerLinks::on_connected(int server, boost::asio::ip::tcp::socket socket) {
  ServerLink& to = link(server);
  to.connection = Connection::make(std::move(socket));
  to.connection->set_limits(bulk_limits(model_, server));
  to.stage = Stage::greeting;
  to.received_bytes = 0;
  liveness_.heard(server, std::chrono::steady_clock::now());
  const Connection* const who = to.connection.get();
  to.connection->start(
      [this, server, who](const FrameHeader& header, std::vector<std::byte> payload) {
        if (link(server).connection.get() == who) on_frame(server, header, std::move(payload));
      },
      [this, server, who](const std::string& reason, FrameFault fault) {
        if (link(server).connection.get() == who) on_closed(server, reason, fault);
      });
  Hello hello;
  hello.rank = cluster_.rank;
  hello.task = cluster_.task();
  hello.fingerprint = fingerprint_;
  hello.signature_hash = signature_hash_;
  hello.must_match = terms_.must_match;
  send(server, FrameType::hello, 0, to_json(hello));
}

void ServerLinks::on_frame(int server, const FrameHeader& header, std::vector<std::byte> payload) {
  liveness_.heard(server, std::chrono::steady_clock::now());
  if (failing_) return;
  if (on_control(server, header, payload)) return;
  if (header.type == FrameType::entry) link(server).stage = Stage::joined;
  inbox_.note(server, "");
  inbox_.deliver({server, header, std::move(payload)});
}

// True: the frame was about the connection.
bool ServerLinks::on_control(int server, const FrameHeader& header,
                             const std::vector<std::byte>& payload) {
  const Span<const std::byte> body(payload);
  const std::string as_text(reinterpret_cast<const char*>(payload.data()), payload.size());
  switch (header.type) {
    case FrameType::heartbeat:
      return true;
    case FrameType::waiting:
      inbox_.note(server, "it waits for " + as_text);
      return true;
    case FrameType::signature:
      on_signature(server, as_text);
      return true;
    case FrameType::goodbye:
      link(server).stage = Stage::left;
      link(server).connection->close();
      return false;
    case FrameType::refuse: {
      const auto refusal = refusal_from(body);
      if (!refusal) break;
      if (refusal->retry == Retry::yes) {
        reach(server, kRefusedPause, "it refused: " + refusal->cause);
      } else {
        fail({FailureKind::config, cluster_.rank,
              text("the parameter server ", describe_member(member(server)), " refused ",
                   cluster_.task(), ": ", refusal->cause),
              refusal->fix, kExitUsage},
             Tell::nobody);
      }
      return true;
    }
    case FrameType::abort: {
      const auto failure = failure_from(body);
      const auto processes = cluster_.members.size() + cluster_.servers.size();
      if (!failure || static_cast<std::size_t>(failure->culprit) >= processes) break;
      const bool expelled =
          failure->kind == FailureKind::peer_lost && failure->culprit == cluster_.rank;
      fail(*failure, expelled ? Tell::nobody : Tell::servers);
      return true;
    }
    default:
      return false;
  }
  lose(server, "it sent a frame that the protocol does not have");
  return true;
}

void ServerLinks::on_signature(int server, const std::string& lines) {
  const auto found = first_difference(split_lines(lines), terms_.model_signature);
  if (!found) return lose(server, "its model's signature does not fit its hash");
  const std::string& there = member(server).task;
  fail({FailureKind::config, cluster_.rank,
        text(there, " and ", cluster_.task(), " differ in the model at ", found->name, ": '",
             found->chief, "' on ", there, ", '", found->worker, "' on ", cluster_.task(), "."),
        "give every process the same options and the same program.", kExitUsage});
}

void ServerLinks::on_closed(int server, const std::string& reason, FrameFault fault) {
  ServerLink& from = link(server);
  from.connection = nullptr;
  if (failing_ || from.stage == Stage::left) return;
  if (fault == FrameFault::bad_version) {
    return fail(
        {FailureKind::config, cluster_.rank,
         text("the parameter server ", member(server).task,
              " speaks another protocol version than this worker (", kProtocolVersion, ")."),
         "run the same build of Troupe in every process.", kExitUsage});
  }
  if (from.stage == Stage::leaving) {
    from.stage = Stage::left;
    FrameHeader header;
    header.type = FrameType::goodbye;
    return inbox_.deliver({server, header, {}});
  }
  if (from.stage == Stage::greeting) return reach(server, Connector::kRetryPause, reason);
  lose(server, reason + " without a goodbye");
}

void ServerLinks::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  liveness_.tick(now);
  Liveness::Duration next = tick_of(options_);
  for (int server = 0; server < count(); ++server) {
    look_at(server, now);
    if (link(server).connection) next = liveness_.next_look(server, now, next);
  }
  tick_.expires_after(next);
  tick_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_tick();
  });
}

void ServerLinks::look_at(int server, std::chrono::steady_clock::time_point now) {
  ServerLink& from = link(server);
  if (from.stage == Stage::left) return;  // its silence says nothing; another may still be busy
  if (!from.connection) {
    const std::string& trouble = from.connector->trouble();
    if (from.stage == Stage::reaching && !trouble.empty()) inbox_.note(server, trouble);
    return;
  }
  const std::uint64_t received = from.connection->received_bytes();
  if (std::exchange(from.received_bytes, received) != received) liveness_.heard(server, now);
  if (liveness_.lost(server, now)) {
    const std::string how = text("no heartbeat for ", seconds_of(liveness_.silence(server, now)),
                                 " s (limit ", seconds_of(options_.heartbeat_timeout), " s)");
    if (from.stage == Stage::greeting) return reach(server, Connector::kRetryPause, how);
    return lose(server, how);
  }
  if (!from.connection->has_unsent()) send(server, FrameType::heartbeat, 0, "");
}

void ServerLinks::lose(int server, const std::string& how) {
  fail(peer_lost(cluster_, cluster_.world_size() + server, how));
}

void ServerLinks::fail(const Failure& failure, Tell whom) {
  if (failing_) return;
  failing_ = failure;
  for (int server = 0; server < count() && whom == Tell::servers; ++server) {
    send(server, FrameType::report, 0, to_json(failure));
  }
  flush_limit_ = std::chrono::steady_clock::now() + kReportFlush;
  finish_failing();
}

// First the frames leave, then the flag is set: the thread that it wakes may end this process.
void ServerLinks::finish_failing() {
  const bool unsent = std::any_of(links_.begin(), links_.end(), [](const ServerLink& l) {
    return l.connection && l.connection->has_unsent();
  });
  if (!unsent || std::chrono::steady_clock::now() >= flush_limit_) {
    inbox_.fail(*failing_);
    return;
  }
  flush_.expires_after(kFlushPoll);
  flush_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) finish_failing();
  });
}

void ServerLinks::goodbye() {
  for (int server = 0; server < count(); ++server) {
    if (!link(server).connection) continue;
    link(server).stage = Stage::leaving;
    send(server, FrameType::goodbye, 0, "");
  }
}

void ServerLinks::send(int server, FrameType type, std::uint64_t sequence,
                       const std::string& payload) {
  if (!link(server).connection) return;
  FrameHeader header = header_of(type);
  header.sequence = sequence;
  link(server).connection->send(header, payload);
}

void ServerLinks::send_bulk(int server, FrameType type, Payload payload,
                            std::function<void()> on_written) {
  if (!link(server).connection) return;
  link(server).connection->send_bulk(header_of(type), std::move(payload), std::move(on_written));
}

FrameHeader ServerLinks::header_of(FrameType type) const {
  FrameHeader header;
  header.type = type;
  header.rank = static_cast<std::uint32_t>(cluster_.rank);
  header.generation = cluster_.generation;
  return header;
}

}  // namespace troupe
