#include <algorithm>
#include <csignal>
#include <numeric>
#include <utility>

#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/address.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/nodes/launch_nodes.h"
#include "troupe/launcher/run/launch_secret.h"

namespace troupe {
namespace {

constexpr int kMaxElasticWorkers = 512;  // a round has to fit into a frame, whatever the addresses
constexpr std::chrono::milliseconds kGoodbyeLimit{1'000};  // for the others to have read it

}  // namespace

Cluster cluster_of_nodes(int nodes, int own) {
  Cluster cluster;
  cluster.rank = own;
  cluster.members.clear();
  for (int node = 0; node < nodes; ++node) cluster.members.push_back({node_task(node), {}});
  return cluster;
}

std::shared_ptr<const Secret> secret_of_start(const Secret& secret, std::uint64_t generation) {
  const Key key = secret.derive(text("troupe group ", generation));
  return std::make_shared<Secret>(std::vector<std::byte>(key.begin(), key.end()));
}

ChiefNode::ChiefNode(boost::asio::io_context& io, const LaunchOptions& options,
                     LaunchConsole& console, LaunchOrders orders)
    : DecidingDirection(io, options, console, std::move(orders)),
      options_(options),
      console_(console),
      secret_(launch_secret(options.secret_file, process_environment())),
      nodes_(cluster_of_nodes(options.node.nodes, 0)),
      acceptor_(io, options.node.rendezvous.host, options.node.rendezvous.port,
                options.node.start_timeout),
      lines_(io, GroupOptions{}, nodes_, nodes_.members.size(), *this),
      workers_(nodes_.members.size()),
      peers_(nodes_.members.size()),
      round_(options.node.nodes),
      remote_(io, [this](int node, FrameType type, const std::string& payload,
                         std::uint64_t sequence) { lines_.send(node, type, payload, sequence); }),
      timer_(io) {
  if (acceptor_.endpoint().address().is_unspecified())
    throw ConfigError(text("--rendezvous ", rendezvous(), " is not an address of its own."),
                      "name the address of node 0 by which the other nodes reach it.");
  workers_[0] = options.workers;
}

std::string ChiefNode::rendezvous() const { return to_text(acceptor_.endpoint()); }

std::string ChiefNode::name_of(int node) const {
  const std::string& peer = peers_[static_cast<std::size_t>(node)];
  return peer.empty() ? node_task(node) : text(node_task(node), " (", peer, ")");
}

void ChiefNode::begin() {
  acceptor_.start({secret_, /*encrypt=*/true, node_task(0), 0},
                  [this](Introduction first) { on_introduction(std::move(first)); });
  lines_.start();
  gather();
}

void ChiefNode::gather() {
  stage_ = Stage::gathering;
  gathering_since_ = std::chrono::steady_clock::now();
  for (int node = 1; node < options_.node.nodes; ++node)
    if (!lines_.has(node)) workers_[static_cast<std::size_t>(node)] = 0;
  say_missing();
}

void ChiefNode::say_missing() {
  std::vector<std::string> missing;
  for (int node = 1; node < options_.node.nodes; ++node)
    if (!lines_.has(node)) missing.push_back(node_task(node));
  const auto waited = std::chrono::steady_clock::now() - gathering_since_;
  if (waited >= options_.node.start_timeout)
    throw RendezvousError(
        text(join(missing), " did not come to ", rendezvous(), " within ",
             Seconds(options_.node.start_timeout).count(), " s (limit --start-timeout)."),
        "start `troupe run` with the same --nodes, --rendezvous and secret on each machine, and "
        "check that they reach this address.");
  console_.say(text("waiting at ", rendezvous(), " for ", join(missing), "."));
  run_after(timer_,
            std::min<std::chrono::steady_clock::duration>(kProgressPause,
                                                          options_.node.start_timeout - waited),
            [this] { say_missing(); });
}

std::optional<NodeRefusal> ChiefNode::objection(const NodeHello& hello) const {
  if (hello.nodes != options_.node.nodes)
    return NodeRefusal{text(node_task(hello.node), " was started with --nodes ", hello.nodes,
                            ", node/0 with --nodes ", options_.node.nodes, "."),
                       "start all with the same number."};
  if (hello.node >= hello.nodes)
    return NodeRefusal{text("there is no ", node_task(hello.node), "."), "number them from 0."};
  if (lines_.has(hello.node))  // for good, or until its predecessor's silence is noticed
    return NodeRefusal{text(name_of(hello.node), " is here already."),
                       "start every node once, with a --node of its own.", false};
  if (hello.is_elastic != options_.is_elastic())
    return NodeRefusal{
        text(node_task(hello.node), options_.is_elastic() ? " lacks" : " has",
             " --min-workers, which node/0 ", options_.is_elastic() ? "has." : "lacks."),
        "give all nodes the same options."};
  const auto node = static_cast<std::size_t>(hello.node);
  // Its former workers may still live until it counts as gone.
  const bool may_return = stage_ == Stage::running && remote_.heals() && !remote_.is_over() &&
                          !round_.is_ending() && !round_.has(hello.node);
  if (stage_ != Stage::gathering && !may_return)
    return NodeRefusal{"the group is running.", "wait for its end, and start all nodes.", false};
  if (may_return && hello.workers != workers_[node])
    return NodeRefusal{text(node_task(hello.node), " had ", workers_[node], " workers, and has ",
                            hello.workers, " now."),
                       "give it as many as before."};
  const int workers =
      std::accumulate(workers_.begin(), workers_.end(), hello.workers) - workers_[node];
  const int most = options_.is_elastic() ? kMaxElasticWorkers : kMaxWorkers;
  if (workers > most)
    return NodeRefusal{text("with ", node_task(hello.node), " there are ", workers, " workers; ",
                            most, " are possible."),
                       "start fewer."};
  return std::nullopt;
}

void ChiefNode::on_introduction(Introduction first) {
  if (first.fault != FrameFault::none || first.purpose() != Purpose::agent) return;
  const auto hello = decode_message<NodeHello>({first.payload.data(), first.payload.size()});
  const bool is_proven = hello && hello->node > 0 && hello->workers > 0 &&
                         node_task(hello->node) == first.from.identity.client;
  if (!is_proven) return;
  const auto connection = Connection::make(std::move(first.from));
  if (const auto refusal = objection(*hello)) {
    connection->start([](const FrameHeader&, const std::vector<std::byte>&) {},
                      [](const std::string&, FrameFault) {});
    connection->send(lines_.header_of(FrameType::refuse), encode(*refusal));
    return connection->close_after_writes();
  }
  const auto node = static_cast<std::size_t>(hello->node);
  workers_[node] = hello->workers;
  peers_[node] = connection->peer_text();
  lines_.take(hello->node, connection);
  console_.say(text(name_of(hello->node), " has come with ", hello->workers,
                    hello->workers == 1 ? " worker." : " workers."));
  if (stage_ == Stage::running) return welcome_back(hello->node);
  if (std::count(workers_.begin(), workers_.end(), 0) > 0) return;
  timer_.cancel();
  const int all = std::accumulate(workers_.begin(), workers_.end(), 0);
  if (options_.min_workers <= all) return start_now();
  console_.say(text("--min-workers is ", options_.min_workers, ", but the nodes have ", all,
                    " workers. Fix: start at least as many as must be left."));
  give_up(kExitUsage);
}

/// An elastic group goes on; this node has nothing of it yet.
void ChiefNode::welcome_back(int node) {
  round_.returns(node);
  plan_.is_under_way = true;
  send_plan(node);
  remote_.back(node);
}

void ChiefNode::start_group(const NodePlan& plan) {
  for (int node = 1; node < options_.node.nodes; ++node)
    if (!lines_.has(node)) return gather();  // of an elastic group, that was lost in between
  stage_ = Stage::running;
  round_ = LaunchRound(options_.node.nodes);
  const auto address = acceptor_.endpoint().address();
  GroupStart start{plan, secret_of_start(*secret_, plan.generation)};
  const int listening = options_.is_elastic() ? options_.workers : 1;
  for (int i = 0; i < listening; ++i) start.listeners.emplace_back(address);
  start.host = address.to_string();
  start.plan.chief_host = address.is_v6() ? text("[", start.host, "]") : start.host;
  start.plan.chief_port = start.listeners.front().port();
  start.plan.world_size = std::accumulate(workers_.begin(), workers_.end(), 0);
  if (options_.is_elastic()) {
    remote_.begin(workers_);
    start.elastic = elastic_run(&remote_);
  }
  plan_ = start.plan;
  for (int node = 1; node < options_.node.nodes; ++node) send_plan(node);
  orders().start(std::move(start));
}

void ChiefNode::send_plan(int node) {
  plan_.first_rank = std::accumulate(workers_.begin(), workers_.begin() + node, 0);
  lines_.send(node, FrameType::welcome, encode(plan_));
}

void ChiefNode::on_frame(int node, const FrameHeader& header, std::vector<std::byte> payload) {
  remote_.heard(node);
  if (header.type == FrameType::heartbeat) {
    // The node lives on a lease (launch_node_lease.h).
    if (header.sequence > 0) lines_.send(node, FrameType::heartbeat, "", header.sequence);
    return;
  }
  if (header.type == FrameType::round || header.type == FrameType::worker) {
    if (options_.is_elastic() && stage_ != Stage::running) return;
    if (options_.is_elastic() && remote_.take(node, header, {payload.data(), payload.size()}))
      return;
  }
  const auto report = decode_message<NodeReport>({payload.data(), payload.size()});
  if (header.type == FrameType::report && report) return on_report(node, *report);
  lose(node, "it said what no launcher says");
}

void ChiefNode::lose(int node, const std::string& how) {
  if (const auto line = lines_.drop(node)) line->close();
  on_lost(node, how);
}

/// Of any node, this one included.
void ChiefNode::on_report(int node, const NodeReport& report) {
  PartEnd part = report.part;
  if (part.signal != 0) part.cause = text("got signal ", part.signal);
  if (node != 0) part.cause = text(name_of(node), ": ", part.cause);
  if (stage_ == Stage::pausing && part.signal != 0) return give_up(kExitSignal + part.signal);
  if (stage_ != Stage::running) return;
  if (node != 0 && part.signal != 0 && remote_.heals()) {  // the others go on
    if (!report.has_ended) return console_.say(part.cause + "; it leaves the group.");
    remote_.leave(node);
    round_.leaves(node);
    lines_.send(node, FrameType::goodbye, "",
                static_cast<std::uint64_t>(kExitSignal + part.signal));
    return finish_if_complete();
  }
  const bool is_news = round_.on_part(node, part, report.has_ended);
  if (is_news) stop_all(part, options_.grace);
  if (is_news && node != 0) console_.say(part.cause + ".");
  finish_if_complete();
}

void ChiefNode::on_lost(int node, const std::string& how) {
  const std::string what = text(name_of(node), " is lost: ", how);
  switch (stage_) {
    case Stage::gathering:
      workers_[static_cast<std::size_t>(node)] = 0;
      return console_.say(text(what, "; waiting for it again."));
    case Stage::running:
      console_.say(text(what, "."));
      if (remote_.heals() && round_.has(node) && !round_.is_ending())
        return remote_.fence(node, [this, node] {
          round_.leaves(node);
          finish_if_complete();
        });
      if (round_.lost(node, name_of(node), how)) stop_all(round_.verdict(), kLostNodeLimit);
      return finish_if_complete();
    case Stage::pausing:
      if (options_.is_elastic()) return console_.say(what + ".");
      console_.say(text(what, "; the group cannot start again."));
      return give_up(kExitPeerLost);
    case Stage::ending:
      if (lines_.empty()) finish();
  }
}

void ChiefNode::stop_all(const PartEnd& why, std::chrono::milliseconds limit) {
  const int number = why.signal != 0 ? why.signal : SIGTERM;
  lines_.send_all(FrameType::abort, encode(NodeStop{number, limit, why.cause}));
  orders().stop(number, limit);
}

void ChiefNode::finish_if_complete() {
  if (stage_ != Stage::running || !round_.is_complete()) return;
  if (exit_code_) return end_all(*exit_code_);
  stage_ = Stage::pausing;
  decide(round_.verdict());
}

void ChiefNode::on_signal(int number) {
  if (stage_ == Stage::ending) return finish();
  if (stage_ == Stage::running) {  // the others' parts still run
    stop_all({kExitSignal + number, false, true, number, text("got signal ", number)},
             options_.grace);
    exit_code_ = kExitSignal + number;
    return;
  }
  give_up(kExitSignal + number);
}

void ChiefNode::end_all(int exit_code) {
  stage_ = Stage::ending;
  if (!exit_code_) exit_code_ = exit_code;
  for (int node = 1; node < options_.node.nodes; ++node)
    lines_.send(node, FrameType::goodbye, "", static_cast<std::uint64_t>(*exit_code_));
  if (lines_.empty()) return finish();
  run_after(timer_, kGoodbyeLimit, [this] { finish(); });
}

void ChiefNode::finish() {
  timer_.cancel();
  orders().finish(exit_code_.value_or(kExitPeerLost));
}

}  // namespace troupe
