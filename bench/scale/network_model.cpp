#include "bench/scale/network_model.h"

#include <algorithm>

#include "core/check.h"

namespace troupe::bench {
namespace {

NetworkModel::Time time_of(std::size_t bytes, double rate) {
  if (rate <= 0) return NetworkModel::Time{0};
  return NetworkModel::Time{static_cast<std::int64_t>(static_cast<double>(bytes) / rate * 1e9)};
}

}  // namespace

NetworkModel::NetworkModel(int port_count, const NetworkShape& shape)
    : ports_(port_count), shape_(shape) {
  TROUPE_CHECK(port_count > 0 && shape.group_size >= 0);
  const int groups = shape.group_size > 0 ? group_of(port_count - 1) + 1 : 0;
  lines_.assign(static_cast<std::size_t>(2 * port_count), Line{shape.port_rate});
  lines_.insert(lines_.end(), static_cast<std::size_t>(2 * groups), Line{shape.uplink_rate});
}

int NetworkModel::group_of(int port) const {
  return shape_.group_size > 0 ? port / shape_.group_size : 0;
}

std::vector<NetworkModel::Hop> NetworkModel::path(const Packet& packet) const {
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  const std::size_t out = at(packet.from);
  const std::size_t in = at(ports_ + packet.to);
  const int from = group_of(packet.from);
  const int to = group_of(packet.to);
  if (from == to) return {{out, shape_.delay}, {in, Time{0}}};
  const int groups = group_of(ports_ - 1) + 1;
  return {{out, Time{0}},
          {at(2 * ports_ + from), shape_.delay + shape_.uplink_delay},
          {at(2 * ports_ + groups + to), Time{0}},
          {in, Time{0}}};
}

void NetworkModel::send(Time now, const Packet& packet) {
  TROUPE_CHECK(packet.from >= 0 && packet.from < ports_ && packet.to >= 0 && packet.to < ports_);
  events_.push({now, order_++, 0, now, packet});
}

std::optional<NetworkModel::Time> NetworkModel::next() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().at;
}

void NetworkModel::advance(Time now, const std::function<void(const Packet&, Time)>& arrived) {
  while (!events_.empty() && events_.top().at <= now) {
    Event event = events_.top();
    events_.pop();
    const std::vector<Hop> hops = path(event.packet);
    if (event.stage == static_cast<int>(hops.size())) {
      arrived(event.packet, event.at);
      continue;
    }
    const Hop& hop = hops[static_cast<std::size_t>(event.stage)];
    Line& line = lines_[hop.line];
    if (!event.packet.urgent) {
      const Time begins = std::max(event.at, line.free);
      line.free = begins + time_of(event.packet.bytes, line.rate);
      event.last = std::max(event.last, line.free);
      event.at = begins;
    }
    event.at += hop.delay;
    event.last += hop.delay;
    if (++event.stage == static_cast<int>(hops.size())) event.at = std::max(event.at, event.last);
    event.order = order_++;
    events_.push(event);
  }
}

}  // namespace troupe::bench
