// RoundRelay: the rounds of an elastic group on a node other than 0, whose rendezvous is node 0's.
// Passes on what workers and rendezvous say to each other, tells node 0 how workers end, and starts
// and kills them as it says.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <set>
#include <string>

#include "troupe/distributed/net/frame.h"
#include "troupe/launcher/nodes/launch_round_lines.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_rounds.h"

namespace troupe {

/// This node's line to node 0, where the group is elastic.
struct NodeLink {
  std::function<void(FrameType, const std::string& payload, std::uint64_t sequence)> send;
  /// Of the present start of the group. False: it is what no launcher says.
  std::function<bool(const FrameHeader&, Span<const std::byte> payload)> on_frame;
};

class RoundRelay final : public LaunchRounds {
 public:
  struct Events {
    std::function<void(int index)> on_kill;
    std::function<void(int index)> on_start;
  };
  /// `link` and `console` outlive it. `has`: whether a worker is this machine's.
  RoundRelay(boost::asio::io_context& io, NodeLink& link, LaunchConsole& console,
             std::function<bool(int index)> has, Events events);
  ~RoundRelay() override { link_.on_frame = nullptr; }
  RoundRelay(const RoundRelay&) = delete;
  RoundRelay& operator=(const RoundRelay&) = delete;

  [[nodiscard]] UniqueFd open_line(int index, const Endpoint& listens, bool joins) override;
  [[nodiscard]] bool ended(int index, const EndedProcess& process) override;
  [[nodiscard]] bool has_left(int index) const override { return left_.count(index) > 0; }
  void stop() override {}  // node 0 has the group: workers here leave it, if a signal tells them to
  void carry_out() override {}
  [[nodiscard]] bool start_elsewhere(int) override { return false; }
  [[nodiscard]] bool goes_on(bool is_over) const override { return !is_over; }

 private:
  void pass_on(int index, Span<const std::byte> bytes);
  [[nodiscard]] bool take(const FrameHeader& header, Span<const std::byte> payload);

  NodeLink& link_;
  LaunchConsole& console_;
  const std::function<bool(int index)> has_;
  const Events events_;
  std::set<int> left_;  // that were told to end, and have told the others
  RoundLines lines_;
};

}  // namespace troupe
