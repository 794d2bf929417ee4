#include "troupe/strategies/parameter_server/wire/server_links.h"

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/strategies/parameter_server/wire/row_messages.h"

namespace troupe {
ServerLinks::ServerLinks(const Cluster& cluster, const GroupOptions& options,
                         const ServedModel& model, JoinTerms terms,
                         boost::asio::io_context& context, ClientInbox& inbox)
    : cluster_(cluster),
      model_(model),
      terms_(std::move(terms)),
      hello_(make_hello(cluster, terms_)),
      inbox_(inbox),
      lines_(context, options, cluster, cluster.servers.size(), *this, nullptr,
             [this](const Failure& failure) { inbox_.fail(failure); }),
      stages_(cluster.servers.size(), Stage::reaching) {
  const Credentials credentials = credentials_of(cluster, options);
  for (const Member& each : cluster.servers) {
    connectors_.push_back(std::make_unique<Connector>(
        context, each.address->host, each.address->port, credentials, Purpose::serving, each.task));
  }
}

void ServerLinks::join() {
  for (int server = 0; server < lines_.count(); ++server) {
    reach(server, std::chrono::milliseconds(0), "");
  }
  lines_.start();
}

void ServerLinks::reach(int server, std::chrono::milliseconds pause, const std::string& why) {
  if (const auto former = lines_.drop(server)) former->close();
  stage(server) = Stage::reaching;
  inbox_.note(server, why);
  connectors_[static_cast<std::size_t>(server)]->start(
      pause, why, [this, server](ProvenSocket proven) { on_connected(server, std::move(proven)); },
      [this, server](const std::string& trouble) { inbox_.note(server, trouble); });
}

void ServerLinks::on_connected(int server, ProvenSocket proven) {
  const auto connection = Connection::make(std::move(proven));
  connection->set_limits(bulk_limits(model_, server));
  lines_.take(server, connection);
  stage(server) = Stage::greeting;
  lines_.send(server, FrameType::hello, to_json(hello_));
}

void ServerLinks::on_frame(int server, const FrameHeader& header, std::vector<std::byte> payload) {
  if (lines_.failed()) return;
  if (on_control(server, header, payload)) return;
  if (header.type == FrameType::entry) stage(server) = Stage::joined;
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
    case FrameType::goodbye:
      lines_.drop(server)->close();
      return false;
    case FrameType::signature:
      if (on_signature(server, as_text)) return true;
      break;
    case FrameType::refuse:
      if (on_refused(server, body)) return true;
      break;
    case FrameType::abort:
      if (on_abort(body)) return true;
      break;
    default:
      return false;
  }
  give_up(server, "it sent a frame that the protocol does not have");
  return true;
}

// A worker that is turned away is no reason for others to stop.
bool ServerLinks::on_refused(int server, Span<const std::byte> payload) {
  const auto refusal = refusal_from(payload);
  if (!refusal) return false;
  if (refusal->retry == Retry::yes) {
    reach(server, Connector::kRefusedPause, "it refused: " + refusal->cause);
    return true;
  }
  lines_.fail({FailureKind::config, cluster_.rank,
               text("the parameter server ", describe_member(member(server)), " refused ",
                    cluster_.task(), ": ", refusal->cause),
               refusal->fix, kExitUsage},
              std::nullopt);
  return true;
}

// Nor is one that was given up.
bool ServerLinks::on_abort(Span<const std::byte> payload) {
  const auto failure = failure_from(payload);
  const auto processes = cluster_.members.size() + cluster_.servers.size();
  if (!failure || static_cast<std::size_t>(failure->culprit) >= processes) return false;
  const bool expelled =
      failure->kind == FailureKind::peer_lost && failure->culprit == cluster_.rank;
  expelled ? lines_.fail(*failure, std::nullopt) : fail(*failure);
  return true;
}

bool ServerLinks::on_signature(int server, const std::string& lines) {
  const auto found = first_difference(split_lines(lines), terms_.model_signature);
  if (!found) return false;
  fail(terms_differ(cluster_.rank, "the model at " + found->name, *found, member(server).task,
                    cluster_.task()));
  return true;
}

void ServerLinks::on_closed(int server, const std::string& reason, FrameFault fault) {
  if (lines_.failed()) return;
  if (fault == FrameFault::bad_version) {
    return fail(other_version(cluster_, "the parameter server " + member(server).task, reason));
  }
  if (stage(server) == Stage::greeting) return reach(server, Connector::kRetryPause, reason);
  if (fault == FrameFault::bad_checksum) {
    return fail(bytes_damaged(cluster_, cluster_.world_size() + server, cluster_.rank,
                              lines_.at(server)->local_address()));
  }
  if (stage(server) != Stage::leaving) return give_up(server, reason + " without a goodbye");
  FrameHeader header;
  header.type = FrameType::goodbye;
  inbox_.deliver({server, header, {}});
}

void ServerLinks::lose(int server, const std::string& how) {
  stage(server) == Stage::greeting ? reach(server, Connector::kRetryPause, how)
                                   : give_up(server, how);
}

void ServerLinks::give_up(int server, const std::string& how) {
  fail(peer_lost(cluster_, cluster_.world_size() + server, how));
}

void ServerLinks::goodbye() {
  for (int server = 0; server < lines_.count(); ++server) {
    if (!lines_.has(server)) continue;
    stage(server) = Stage::leaving;
    lines_.send(server, FrameType::goodbye);
  }
}

void ServerLinks::send_bulk(int server, FrameType type, Payload payload,
                            std::function<void()> on_written) {
  const auto line = lines_.at(server);
  if (line) line->send_bulk(lines_.header_of(type), std::move(payload), std::move(on_written));
}

}  // namespace troupe
