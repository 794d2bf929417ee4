#include "troupe/launcher/nodes/launch_remote_workers.h"

#include <algorithm>
#include <csignal>
#include <utility>

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
  workers_.clear();
  for (const int count : workers) {
    const Worker here{static_cast<int>(nodes_.size())};
    workers_.insert(workers_.end(), static_cast<std::size_t>(count), here);
    nodes_.push_back(std::make_unique<Node>(io_));
    nodes_.back()->heard = std::chrono::steady_clock::now();
  }
}

int RemoteWorkers::node_of(int index) const {
  const auto place = static_cast<std::size_t>(index);
  return place < workers_.size() ? workers_[place].node : 0;
}

void RemoteWorkers::heard(int node) {
  if (!nodes_.empty()) at(node).heard = std::chrono::steady_clock::now();
}

bool RemoteWorkers::take(int node, const FrameHeader& header, Span<const std::byte> payload) {
  if (header.type == FrameType::worker) return take_news(node, payload);
  if (header.type != FrameType::round || header.sequence >= kMaxWorldSize) return false;
  const int index = static_cast<int>(header.sequence);
  if (node_of(index) != node) return false;
  if (worker(index).lives) events_.on_said(index, payload);
  return true;
}

bool RemoteWorkers::take_news(int node, Span<const std::byte> payload) {
  if (const auto started = decode_message<WorkerStarted>(payload)) {
    if (node_of(started->worker) != node) return false;
    bool& lives = worker(started->worker).lives;
    if (lives == started->joins) return false;  // one process at a time
    lives = true;
    events_.on_started(started->worker, started->listens);
    return true;
  }
  const auto ended = decode_message<WorkerEnded>(payload);
  if (!ended || node_of(ended->worker) != node || !worker(ended->worker).lives) return false;
  worker(ended->worker).lives = false;
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
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].node == node && std::exchange(workers_[i].lives, false))
      events_.on_gone(static_cast<int>(i), at(node).heard);
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
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].node == node) events_.on_back(static_cast<int>(i));
}

void RemoteWorkers::say(int index, const std::string& message) {
  send_(node_of(index), FrameType::round, message, static_cast<std::uint64_t>(index));
}

void RemoteWorkers::order(int index, bool starts) {
  send_(node_of(index), FrameType::worker, encode(WorkerOrder{index, starts}), 0);
}

bool RemoteWorkers::lives_on(int node) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [node](const Worker& worker) { return worker.node == node && worker.lives; });
}

bool RemoteWorkers::any_lives() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.node > 0 && worker.lives; });
}

}  // namespace troupe
