// An agent: a launcher that another one started by ssh (launch_hosts.h). What must not appear in a
// command comes by its standard input, one JSON object in a line: first AgentStart, then
// AgentOrders, at least every second. When that ends, or falls silent, nothing reads what it prints
// any more, and it stops what it started.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/cluster_spec.h"
#include "core/secret.h"
#include "launcher/launch.h"
#include "launcher/launch_output.h"

namespace troupe {

/// No order for so long: the other launcher, or the way to it, is gone.
inline constexpr std::chrono::milliseconds kAgentSilence{10'000};
inline constexpr std::chrono::milliseconds kAgentBeat{1'000};

struct AgentStart {
  std::shared_ptr<const Secret> secret;
  Endpoint rendezvous;      // port 0, of node 0: it chooses one
  Environment environment;  // to be added to its own
};
struct AgentOrder {
  int signal = 0;  // to be acted on as if it had come to the agent; 0: go on
};

[[nodiscard]] std::string encode(const AgentStart& start);
[[nodiscard]] std::string encode(const AgentOrder& order);
/// Unset for what encode() does not write.
[[nodiscard]] std::optional<AgentStart> decode_agent_start(std::string_view line);
[[nodiscard]] std::optional<AgentOrder> decode_agent_order(std::string_view line);

/// The agent's first line on stdout: it runs, and where node 0 listens ("-": elsewhere).
[[nodiscard]] std::string agent_greeting(const std::string& rendezvous);
struct AgentGreeting {
  std::string version;
  std::string rendezvous;
};
/// Unset: the line is no greeting.
[[nodiscard]] std::optional<AgentGreeting> decode_agent_greeting(std::string_view line);

/// Reads AgentStart from stdin into `options` and this process's environment. Call it before any
/// other thread runs. Blocks: until it has come, at most the start timeout.
/// Throws: EnvironmentError when it does not.
void take_agent_start(LaunchOptions& options);

/// The orders that follow. `on_gone` is called once.
class AgentLine {
 public:
  AgentLine(boost::asio::io_context& io, std::function<void(int)> on_signal,
            std::function<void()> on_gone);
  void start();

 private:
  void read();
  void expect();
  void end();

  boost::asio::posix::stream_descriptor in_;
  boost::asio::steady_timer silence_;
  LineSplitter lines_;
  std::array<char, 4096> buffer_{};
  std::function<void()> on_gone_;
};

}  // namespace troupe
