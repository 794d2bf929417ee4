#include "troupe/launcher/nodes/launch_round_relay.h"

#include <algorithm>
#include <utility>

#include "troupe/core/text.h"
#include "troupe/distributed/elastic/round_messages.h"
#include "troupe/launcher/nodes/launch_node_messages.h"
#include "troupe/launcher/nodes/launch_rendezvous.h"

namespace troupe {

RoundRelay::RoundRelay(boost::asio::io_context& io, NodeLink& link, LaunchConsole& console,
                       std::function<bool(int index)> has, Events events)
    : link_(link),
      console_(console),
      has_(std::move(has)),
      events_(std::move(events)),
      lines_(
          io, [this](int index, Span<const std::byte> bytes) { pass_on(index, bytes); }, [] {}) {
  link_.on_frame = [this](const FrameHeader& header, Span<const std::byte> payload) {
    return take(header, payload);
  };
}

void RoundRelay::pass_on(int index, Span<const std::byte> bytes) {
  const auto message = worker_message_from(bytes);
  const auto* const ready = message ? std::get_if<Readiness>(&*message) : nullptr;
  if (ready != nullptr && ready->leaves) left_.insert(index);
  // One that is too long for a frame is cut: no message either.
  const auto size = std::min(bytes.size(), kMaxRoundMessageBytes);
  link_.send(FrameType::round, std::string(reinterpret_cast<const char*>(bytes.data()), size),
             static_cast<std::uint64_t>(index));
}

UniqueFd RoundRelay::open_line(int index, const Endpoint& listens, bool joins) {
  left_.erase(index);
  UniqueFd line = lines_.open(index);
  link_.send(FrameType::worker, encode(WorkerStarted{index, listens, joins}), 0);
  return line;
}

/// Node 0 judges losses: it knows whether others hold the state. A failure of its own ends the
/// group as ever.
bool RoundRelay::ended(int index, const EndedProcess& process) {
  lines_.close(index);
  const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(process.ran);
  link_.send(FrameType::worker, encode(WorkerEnded{index, process.end, ran}), 0);
  if (!is_loss(process.end)) return true;
  console_.say(end_text(process) + ".");
  return false;
}

bool RoundRelay::take(const FrameHeader& header, Span<const std::byte> payload) {
  if (header.type == FrameType::worker) {
    const auto order = decode_message<WorkerOrder>(payload);
    if (!order || !has_(order->worker)) return false;
    (order->starts ? events_.on_start : events_.on_kill)(order->worker);
    return true;
  }
  if (header.type != FrameType::round || header.sequence >= kMaxWorldSize) return false;
  const int index = static_cast<int>(header.sequence);
  if (!has_(index) || !rendezvous_message_from(payload)) return false;
  if (!lines_.send(index,
                   std::string(reinterpret_cast<const char*>(payload.data()), payload.size()))) {
    console_.say(text("worker/", index, " does not read what it is told; it is killed."));
    events_.on_kill(index);
  }
  return true;
}

}  // namespace troupe
