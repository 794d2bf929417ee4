// What launchers of one group say to each other, as the payloads of frames (net/frame.h): hello,
// refuse, welcome, report and abort. (goodbye has the exit code of all in its header's sequence.)
// What arrives is hostile until read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/span.h"
#include "launcher/launch_direction.h"

namespace troupe {

/// "node/1"
[[nodiscard]] std::string node_task(int node);

/// hello: a node says what it was started with.
struct NodeHello {
  int node = 0;
  int nodes = 0;
  int workers = 0;
};
/// refuse: it cannot take part.
struct NodeRefusal {
  std::string cause;
  std::string fix;
  bool is_final = true;  // else it may be different in a while
};
/// welcome: a start of the group; without the listeners of GroupStart.
struct NodePlan {
  std::uint64_t generation = 0;
  int attempt = 0;
  int world_size = 0;
  int first_rank = 0;
  std::string chief_host;
  std::uint16_t chief_port = 0;
};
/// report: a node's part is being stopped, or has ended.
struct NodeReport {
  bool has_ended = false;
  PartEnd part;
};
/// abort: the reason lies elsewhere.
struct NodeStop {
  int signal = 0;
  std::chrono::milliseconds limit{0};
  std::string reason;
};

/// Long texts are cut, so that each fits into a frame whatever other nodes have said.
[[nodiscard]] std::string encode(const NodeHello& message);
[[nodiscard]] std::string encode(const NodeRefusal& message);
[[nodiscard]] std::string encode(const NodePlan& message);
[[nodiscard]] std::string encode(const NodeReport& message);
[[nodiscard]] std::string encode(const NodeStop& message);

/// Unset for anything that encode() does not write.
template <class Message>
[[nodiscard]] std::optional<Message> decode_message(Span<const std::byte> bytes);
template <>
std::optional<NodeHello> decode_message(Span<const std::byte> bytes);
template <>
std::optional<NodeRefusal> decode_message(Span<const std::byte> bytes);
template <>
std::optional<NodePlan> decode_message(Span<const std::byte> bytes);
template <>
std::optional<NodeReport> decode_message(Span<const std::byte> bytes);
template <>
std::optional<NodeStop> decode_message(Span<const std::byte> bytes);

}  // namespace troupe
