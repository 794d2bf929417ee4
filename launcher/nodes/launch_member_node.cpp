#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <csignal>
#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/address.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/nodes/launch_nodes.h"
#include "troupe/launcher/run/launch_secret.h"

namespace troupe {
namespace {

// After a refusal that may pass.
constexpr std::chrono::milliseconds kRefusedPause{1'000};

}  // namespace

MemberNode::MemberNode(boost::asio::io_context& io, const LaunchOptions& options,
                       LaunchConsole& console, LaunchOrders orders)
    : options_(options),
      console_(console),
      orders_(std::move(orders)),
      secret_(launch_secret(options.secret_file, process_environment())),
      nodes_(cluster_of_nodes(options.node.nodes, options.node.node)),
      lines_(io, GroupOptions{}, nodes_, 1, *this, [this](int) { beat(); }),
      connector_(io, options.node.rendezvous.host, options.node.rendezvous.port,
                 {secret_, /*encrypt=*/true, node_task(options.node.node), 0}, Purpose::agent,
                 node_task(0)),
      start_timer_(io) {
  link_.send = [this](FrameType type, const std::string& payload, std::uint64_t sequence) {
    lines_.send(0, type, payload, sequence);
  };
}

void MemberNode::begin() {
  lines_.start();
  look_for_node_0(options_.node.start_timeout);
}

void MemberNode::look_for_node_0(std::chrono::milliseconds limit) {
  started_ = std::chrono::steady_clock::now();
  limit_ = limit;
  reach(std::chrono::milliseconds(0), "");
  say_waiting();
}

void MemberNode::say_waiting() {
  const Endpoint& address = options_.node.rendezvous;
  const std::string where = to_text(address.host, address.port);
  const std::string why = connector_.trouble().empty() ? "" : text(" (", connector_.trouble(), ")");
  const auto waited = std::chrono::steady_clock::now() - started_;
  const bool is_start = limit_ == options_.node.start_timeout;
  if (waited >= limit_)
    throw RendezvousError(
        text("node/0 at ", where, " did not start the group within ", Seconds(limit_).count(),
             is_start ? " s (limit --start-timeout)" : " s (limit --regroup-secs)", why, "."),
        "start node 0 with this --rendezvous and the same secret, and check that its address is "
        "reached from here.");
  console_.say(lines_.has(0)
                   ? text(node_task(options_.node.node), " waits for node/0 to start the group.")
                   : text(node_task(options_.node.node), " looks for node/0 at ", where, why, "."));
  run_after(start_timer_,
            std::min<std::chrono::steady_clock::duration>(kProgressPause, limit_ - waited),
            [this] { say_waiting(); });
}

void MemberNode::reach(std::chrono::milliseconds pause, const std::string& why) {
  stage_ = Stage::joining;
  connector_.start(pause, why, [this](ProvenSocket proven) { on_connected(std::move(proven)); });
}

void MemberNode::on_connected(ProvenSocket proven) {
  lines_.take(0, Connection::make(std::move(proven)));
  lines_.send(0, FrameType::hello,
              encode(NodeHello{options_.node.node, options_.node.nodes, options_.workers,
                               options_.is_elastic()}));
  lease_.begin(std::chrono::steady_clock::now());
}

void MemberNode::beat() {
  lines_.send(0, FrameType::heartbeat, "",
              options_.is_elastic() ? lease_.beat(std::chrono::steady_clock::now()) : 0);
}

void MemberNode::on_answer(std::uint64_t beat) {
  lease_.answered(beat);
  if (options_.is_elastic() && stage_ == Stage::running) orders_.allow_until(lease_.until());
}

void MemberNode::on_frame(int /*chief*/, const FrameHeader& header,
                          std::vector<std::byte> payload) {
  const Span<const std::byte> bytes(payload.data(), payload.size());
  if (header.type == FrameType::heartbeat) return on_answer(header.sequence);
  if (header.type == FrameType::round || header.type == FrameType::worker) {
    if (stage_ == Stage::waiting) return;  // it crossed with the end of the last worker here
    if (link_.on_frame && stage_ == Stage::running && link_.on_frame(header, bytes)) return;
  } else if (header.type == FrameType::refuse && stage_ == Stage::joining) {
    if (const auto refusal = decode_message<NodeRefusal>(bytes)) return on_refusal(*refusal);
  } else if (header.type == FrameType::welcome && stage_ != Stage::running) {
    const auto plan = decode_message<NodePlan>(bytes);
    if (plan && plan->first_rank > 0 && plan->chief_port != 0 &&
        plan->first_rank + options_.workers <= plan->world_size)
      return on_plan(*plan);
  } else if (header.type == FrameType::abort && stage_ != Stage::joining) {
    if (const auto stop = decode_message<NodeStop>(bytes)) return on_stop(*stop);
  } else if (header.type == FrameType::goodbye && header.sequence <= 255) {
    return end(static_cast<int>(header.sequence));
  }
  lose(0, "it said what no launcher says");
}

void MemberNode::lose(int chief, const std::string& how) {
  if (const auto line = lines_.drop(chief)) line->close();
  on_lost(how);
}

void MemberNode::on_refusal(const NodeRefusal& refusal) {
  if (const auto line = lines_.drop(0)) line->close();
  if (refusal.is_final) throw ConfigError(refusal.cause, refusal.fix);
  reach(kRefusedPause, refusal.cause);
}

void MemberNode::on_plan(const NodePlan& plan) {
  start_timer_.cancel();
  stage_ = Stage::running;
  GroupStart start{plan, secret_of_start(*secret_, plan.generation)};
  if (options_.is_elastic()) {
    start.host = lines_.at(0)->local_address();
    const auto address = boost::asio::ip::make_address(start.host);
    for (int i = 0; i < options_.workers && !plan.is_under_way; ++i)
      start.listeners.emplace_back(address);
    start.elastic.restarts = &none_;
    start.elastic.link = &link_;
    orders_.allow_until(lease_.until());
  }
  orders_.start(std::move(start));
}

void MemberNode::on_stop(const NodeStop& stop) {
  if (stage_ != Stage::running) return;
  console_.say(text("node/0 stops the group: ", stop.reason, "."));
  orders_.stop(stop.signal, stop.limit);
}

void MemberNode::on_part(const PartEnd& part, bool has_ended) {
  if (has_ended && stage_ == Stage::alone) {
    if (part.signal != 0) return end(kExitSignal + part.signal);
    return options_.is_elastic() ? look_for_node_0(options_.regroup_limit) : end(kExitPeerLost);
  }
  if (has_ended) stage_ = Stage::waiting;
  lines_.send(0, FrameType::report, encode(NodeReport{has_ended, part}));
}

void MemberNode::on_lost(const std::string& how) {
  const Endpoint& where = options_.node.rendezvous;
  const std::string what = text("node/0 (", to_text(where.host, where.port), ") is lost: ", how);
  switch (stage_) {
    case Stage::joining:
      return reach(Connector::kRetryPause, how);
    case Stage::running:
      console_.say(text(what, options_.is_elastic() ? "; the workers here end." : "."));
      stage_ = Stage::alone;
      return orders_.stop(options_.is_elastic() ? SIGKILL : SIGTERM, kLostNodeLimit);
    case Stage::waiting:
      console_.say(text(what, "."));
      return options_.is_elastic() ? look_for_node_0(options_.regroup_limit) : end(kExitPeerLost);
    case Stage::alone:
      return;
    case Stage::ending:
      return end(kExitPeerLost);
  }
}

void MemberNode::on_signal(int number) {
  if (stage_ != Stage::waiting) return end(kExitSignal + number);
  stage_ = Stage::ending;  // a second one does not wait for the answer
  lines_.send(0, FrameType::report,
              encode(NodeReport{true, {kExitSignal + number, false, true, number, "interrupted"}}));
}

void MemberNode::end(int exit_code) {
  stage_ = Stage::ending;
  start_timer_.cancel();
  connector_.stop();
  if (const auto line = lines_.drop(0)) line->close();
  orders_.finish(exit_code);
}

}  // namespace troupe
