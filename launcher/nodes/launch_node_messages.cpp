#include "troupe/launcher/nodes/launch_node_messages.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/json_fields.h"
#include "troupe/launcher/run/launch_options.h"

namespace troupe {
namespace {

using detail::dump_json;
using detail::Json;
using detail::number_in;
using detail::parse_json;
using detail::string_in;

constexpr std::uint64_t kMostGraceMs = 3'600'000;
constexpr std::uint64_t kMostRanMs = std::uint64_t{1} << 53;
constexpr std::size_t kMaxHostBytes = 64;  // of a numeric address

void require(bool fits) {
  if (!fits) throw DataError("a message contradicts itself.", "");
}

template <class Integer>
Integer whole_in(const Json& json, const char* key, std::uint64_t limit) {
  return static_cast<Integer>(number_in(json, key, limit));
}

bool flag_in(const Json& json, const char* key) { return json.at(key).get_ref<const bool&>(); }

/// 0 or one that launchers pass on.
int signal_in(const Json& json, const char* key) {
  constexpr std::array<int, 4> kPassedOn{0, SIGHUP, SIGINT, SIGTERM};
  const int number = whole_in<int>(json, key, 64);
  if (std::find(kPassedOn.begin(), kPassedOn.end(), number) == kPassedOn.end())
    throw DataError("a signal is not one of those.", "");
  return number;
}

/// Its control characters are not for our terminal.
std::string line_in(const Json& json, const char* key) {
  std::string line = string_in(json, key);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return line;
}

}  // namespace

std::string node_task(int node) { return text("node/", node); }

std::string encode(const NodeHello& message) {
  return dump_json({{"node", message.node},
                    {"nodes", message.nodes},
                    {"workers", message.workers},
                    {"elastic", message.is_elastic}});
}

std::string encode(const NodeRefusal& message) {
  return dump_json({{"cause", cut_to_fit(message.cause)},
                    {"fix", cut_to_fit(message.fix)},
                    {"final", message.is_final}});
}

std::string encode(const NodePlan& message) {
  return dump_json({{"generation", message.generation},
                    {"attempt", message.attempt},
                    {"world_size", message.world_size},
                    {"first_rank", message.first_rank},
                    {"chief_host", cut_to_fit(message.chief_host)},
                    {"chief_port", message.chief_port},
                    {"under_way", message.is_under_way}});
}

std::string encode(const NodeReport& message) {
  return dump_json({{"ended", message.has_ended},
                    {"exit_code", message.part.end.exit_code},
                    {"failed", message.part.end.failed},
                    {"can_recover", message.part.end.can_recover},
                    {"signal", message.part.signal},
                    {"cause", cut_to_fit(message.part.cause)}});
}

std::string encode(const NodeStop& message) {
  return dump_json({{"signal", message.signal},
                    {"limit_ms", message.limit.count()},
                    {"reason", cut_to_fit(message.reason)}});
}

std::string encode(const WorkerStarted& message) {
  return dump_json({{"kind", "started"},
                    {"worker", message.worker},
                    {"host", message.listens.host},
                    {"port", message.listens.port},
                    {"joins", message.joins}});
}

std::string encode(const WorkerEnded& message) {
  return dump_json({{"kind", "ended"},
                    {"worker", message.worker},
                    {"code", message.end.code},
                    {"signal", message.end.signal},
                    {"ran_ms", message.ran.count()}});
}

std::string encode(const WorkerOrder& message) {
  return dump_json({{"kind", message.starts ? "start" : "kill"}, {"worker", message.worker}});
}

template <>
std::optional<NodeHello> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    return NodeHello{whole_in<int>(json, "node", kMaxNodes - 1),
                     whole_in<int>(json, "nodes", kMaxNodes),
                     whole_in<int>(json, "workers", kMaxLocalWorkers), flag_in(json, "elastic")};
  });
}

template <>
std::optional<NodeRefusal> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    return NodeRefusal{line_in(json, "cause"), line_in(json, "fix"), flag_in(json, "final")};
  });
}

template <>
std::optional<NodePlan> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    return NodePlan{number_in(json, "generation", UINT64_MAX),
                    whole_in<int>(json, "attempt", kMaxRestarts),
                    whole_in<int>(json, "world_size", kMaxWorkers),
                    whole_in<int>(json, "first_rank", kMaxWorkers - 1),
                    line_in(json, "chief_host"),
                    whole_in<std::uint16_t>(json, "chief_port", UINT16_MAX),
                    flag_in(json, "under_way")};
  });
}

template <>
std::optional<NodeReport> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    NodeReport report;
    report.has_ended = flag_in(json, "ended");
    report.part.end.exit_code = whole_in<int>(json, "exit_code", 255);
    report.part.end.failed = flag_in(json, "failed");
    report.part.end.can_recover = flag_in(json, "can_recover");
    report.part.signal = signal_in(json, "signal");
    report.part.cause = line_in(json, "cause");
    return report;
  });
}

template <>
std::optional<NodeStop> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    const int number = signal_in(json, "signal");
    return NodeStop{number == 0 ? SIGTERM : number,
                    std::chrono::milliseconds(number_in(json, "limit_ms", kMostGraceMs)),
                    line_in(json, "reason")};
  });
}

template <>
std::optional<WorkerStarted> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    require(string_in(json, "kind") == "started");
    WorkerStarted started{
        whole_in<int>(json, "worker", kMaxWorkers - 1),
        {line_in(json, "host"), whole_in<std::uint16_t>(json, "port", UINT16_MAX)},
        flag_in(json, "joins")};
    require(!started.listens.host.empty() && started.listens.host.size() <= kMaxHostBytes);
    require(started.listens.port > 0);
    return started;
  });
}

template <>
std::optional<WorkerEnded> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    require(string_in(json, "kind") == "ended");
    const ChildEnd end{whole_in<int>(json, "code", 255), whole_in<int>(json, "signal", 127)};
    require(end.signal == 0 || end.code == kExitSignal + end.signal);
    return WorkerEnded{whole_in<int>(json, "worker", kMaxWorkers - 1), end,
                       std::chrono::milliseconds(number_in(json, "ran_ms", kMostRanMs))};
  });
}

template <>
std::optional<WorkerOrder> decode_message(Span<const std::byte> bytes) {
  return parse_json(bytes, [](const Json& json) {
    const std::string& kind = string_in(json, "kind");
    require(kind == "start" || kind == "kill");
    return WorkerOrder{whole_in<int>(json, "worker", kMaxWorkers - 1), kind == "start"};
  });
}

}  // namespace troupe
