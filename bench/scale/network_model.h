// NetworkModel: where the packets of a small network are, as a function of time and nothing else.
//
// Every *port* (a machine's network card) sends and receives at one rate, both at once. Ports may
// stand in groups (racks); a group has one *uplink*, with a rate and a further delay of its own,
// through which whatever goes to another group passes. A packet waits in line where it finds
// others, is carried on while it still arrives (cut-through), and no packet is ever dropped.
// Used with the machine's clock by EmulatedNetwork and with a virtual one by simulate().
// Thread rule: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace troupe::bench {

/// What the network can do. A rate of 0 is no limit.
struct NetworkShape {
  std::chrono::nanoseconds delay{0};         // one way, between any two ports
  double port_rate = 0;                      // bytes per second, each way
  int group_size = 0;                        // ports per group; 0: no groups
  std::chrono::nanoseconds uplink_delay{0};  // more, one way, between groups
  double uplink_rate = 0;                    // bytes per second of a group's uplink, each way
};

struct Packet {
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;
  /// Passes those that wait, and takes no time itself: an acknowledgement without data.
  bool urgent = false;
  std::uint64_t id = 0;
};

class NetworkModel {
 public:
  using Time = std::chrono::nanoseconds;  // since an origin that the caller chooses

  NetworkModel(int port_count, const NetworkShape& shape);

  /// `packet` leaves its sender at `now`; times do not go backwards.
  void send(Time now, const Packet& packet);
  /// When something happens next; unset: no packet is on its way.
  [[nodiscard]] std::optional<Time> next() const;
  /// Lets time pass; `arrived` gets every packet whose last byte has come by `now`, in order.
  void advance(Time now, const std::function<void(const Packet&, Time)>& arrived);

 private:
  struct Event {
    Time at;              // the packet's first byte is at stage `stage`
    std::uint64_t order;  // among those of the same time, the one that was sent first
    int stage;
    Time last;  // when its last byte is there
    Packet packet;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Line {  // one direction of a port or of an uplink
    double rate;
    Time free{0};
  };
  struct Hop {
    std::size_t line;
    Time delay;  // from here to the next
  };

  [[nodiscard]] int group_of(int port) const;
  [[nodiscard]] std::vector<Hop> path(const Packet& packet) const;

  int ports_;
  NetworkShape shape_;
  std::vector<Line> lines_;  // ports out, ports in, uplinks out, uplinks in
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

}  // namespace troupe::bench
