#include "troupe/launcher/nodes/launch_remote_workers.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>
#include <variant>

#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/nodes/launch_node_messages.h"
#include "troupe/launcher/run/launch_policy.h"

namespace troupe {

RemoteWorkers::RemoteWorkers(boost::asio::io_context& io, Send send)
    : io_(io), send_(std::move(send)) {}

void RemoteWorkers::begin(const std::vector<int>& workers) {
  heals_ = is_over_ = false;
  nodes_.clear();
  int first = 0;
  for (const int count : workers) {
    nodes_.push_back(std::make_unique<Node>(io_));
    nodes_.back()->first = first;
    nodes_.back()->lives.assign(static_cast<std::size_t>(count), true);
    nodes_.back()->heard = std::chrono::steady_clock::now();
    first += count;
  }
}

int RemoteWorkers::node_of(int index) const {
  for (std::size_t node = 1; node < nodes_.size(); ++node) {
    const int inside = index - nodes_[node]->first;
    if (inside >= 0 && inside < static_cast<int>(nodes_[node]->lives.size()))
      return static_cast<int>(node);
  }
  return 0;
}

std::vector<bool>::reference RemoteWorkers::life(int index) const {
  Node& node = at(node_of(index));
  return node.lives[static_cast<std::size_t>(index - node.first)];
}

void RemoteWorkers::heard(int node) {
  if (!nodes_.empty()) at(node).heard = std::chrono::steady_clock::now();
}

bool RemoteWorkers::take(int node, const FrameHeader& header, Span<const std::byte> payload) {
  if (header.type == FrameType::worker) return take_news(node, payload);
  if (header.type != FrameType::round || header.sequence >= kMaxWorldSize) return false;
  const int index = static_cast<int>(header.sequence);
  if (node_of(index) != node) return false;
  if (life(index)) events_.on_said(index, payload);
  return true;
}

bool RemoteWorkers::take_news(int node, Span<const std::byte> payload) {
  if (const auto started = decode_message<WorkerStarted>(payload)) {
    if (node_of(started->worker) != node) return false;
    if (life(started->worker) == started->joins) return false;  // one process at a time
    life(started->worker) = true;
    events_.on_started(started->worker, started->listens);
    return true;
  }
  const auto ended = decode_message<WorkerEnded>(payload);
  if (!ended || node_of(ended->worker) != node || !life(ended->worker)) return false;
  life(ended->worker) = false;
  EndedProcess process;
  process.name = text(task_name(LaunchRole::worker, ended->worker), " on ", node_task(node));
  process.end = ended->end;
  process.ran = ended->ran;
  if (!ended->end.failed()) at(node).is_over = true;
  events_.on_ended(ended->worker, process);
  if (is_over_) dismiss_idle();
  return true;
}

void RemoteWorkers::fence(int node, std::function<void()> on_over) {
  const auto end = at(node).heard + kNodeLimit;
  run_after(at(node).until_dead, end - std::chrono::steady_clock::now(),
            [this, node, on_over = std::move(on_over)] {
              leave(node);
              on_over();
            });
}

void RemoteWorkers::leave(int node) {
  Node& gone = at(node);
  for (std::size_t i = 0; i < gone.lives.size(); ++i) {
    if (!gone.lives[i]) continue;
    gone.lives[i] = false;
    events_.on_gone(gone.first + static_cast<int>(i), gone.heard);
  }
}

void RemoteWorkers::set_over() {
  is_over_ = true;
  dismiss_idle();
}

/// Where a worker has ended well its launcher knows.
void RemoteWorkers::dismiss_idle() {
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    const int node = static_cast<int>(i);
    if (lives_on(node) || std::exchange(at(node).is_over, true)) continue;
    send_(node, FrameType::abort, encode(NodeStop{SIGTERM, kNodeLimit, "training is over"}), 0);
  }
}

void RemoteWorkers::back(int node) {
  heard(node);
  const Node& here = at(node);
  for (std::size_t i = 0; i < here.lives.size(); ++i)
    events_.on_back(here.first + static_cast<int>(i));
}

void RemoteWorkers::say(int index, const std::string& message) {
  send_(node_of(index), FrameType::round, message, static_cast<std::uint64_t>(index));
}

void RemoteWorkers::kill(int index) {
  send_(node_of(index), FrameType::worker, encode(WorkerOrder{index, /*starts=*/false}), 0);
}

void RemoteWorkers::start(int index) {
  send_(node_of(index), FrameType::worker, encode(WorkerOrder{index, /*starts=*/true}), 0);
}

bool RemoteWorkers::lives_on(int node) const {
  const std::vector<bool>& lives = at(node).lives;
  return std::find(lives.begin(), lives.end(), true) != lives.end();
}

bool RemoteWorkers::any_lives() const {
  for (std::size_t node = 1; node < nodes_.size(); ++node)
    if (lives_on(static_cast<int>(node))) return true;
  return false;
}

}  // namespace troupe
