#include "troupe/launcher/nodes/launch_node_messages.h"

#include <algorithm>
#include <csignal>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/json_fields.h"
#include "troupe/launcher/run/launch_options.h"

namespace troupe {
namespace {

using detail::Json;

constexpr std::uint64_t kMostGraceMs = 3'600'000;
constexpr std::uint64_t kMostRanMs = std::uint64_t{1} << 53;
constexpr std::size_t kMaxHostBytes = 64;  // of a numeric address

/// The fields of a message, each named once: written, or read and judged.
class Fields {
 public:
  Fields() = default;
  explicit Fields(const Json& from) : from_(&from) {}

  template <class Integer>
  void whole(const char* key, Integer& value, std::uint64_t limit) {
    if (is_read())
      value = static_cast<Integer>(detail::number_in(*from_, key, limit));
    else
      written_[key] = value;
  }
  void time(const char* key, std::chrono::milliseconds& value, std::uint64_t limit) {
    auto count = value.count();
    whole(key, count, limit);
    value = std::chrono::milliseconds(count);
  }
  void flag(const char* key, bool& value) {
    if (is_read())
      value = from_->at(key).get_ref<const bool&>();
    else
      written_[key] = value;
  }
  /// 0 or one that launchers pass on.
  void signal(const char* key, int& value) {
    whole(key, value, 64);
    require(value == 0 || value == SIGHUP || value == SIGINT || value == SIGTERM);
  }
  /// Control characters are not for our terminal.
  void line(const char* key, std::string& value) {
    if (!is_read()) {
      written_[key] = cut_to_fit(value);
      return;
    }
    value = detail::string_in(*from_, key);
    std::replace_if(
        value.begin(), value.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  }
  /// What kind of a message about a worker it is.
  void kind(std::string is) {
    const std::string wanted = is;
    line("kind", is);
    require(is == wanted);
  }
  /// Of what was read.
  void require(bool fits) const {
    if (is_read() && !fits) throw DataError("a message contradicts itself.", "");
  }
  [[nodiscard]] const Json& written() const { return written_; }

 private:
  [[nodiscard]] bool is_read() const { return from_ != nullptr; }

  const Json* from_ = nullptr;
  Json written_;
};

void go_through(Fields& fields, NodeHello& hello) {
  fields.whole("node", hello.node, kMaxNodes - 1);
  fields.whole("nodes", hello.nodes, kMaxNodes);
  fields.whole("workers", hello.workers, kMaxLocalWorkers);
  fields.flag("elastic", hello.is_elastic);
}

void go_through(Fields& fields, NodeRefusal& refusal) {
  fields.line("cause", refusal.cause);
  fields.line("fix", refusal.fix);
  fields.flag("final", refusal.is_final);
}

void go_through(Fields& fields, NodePlan& plan) {
  fields.whole("generation", plan.generation, UINT64_MAX);
  fields.whole("attempt", plan.attempt, kMaxRestarts);
  fields.whole("world_size", plan.world_size, kMaxWorkers);
  fields.whole("first_rank", plan.first_rank, kMaxWorkers - 1);
  fields.line("chief_host", plan.chief_host);
  fields.whole("chief_port", plan.chief_port, UINT16_MAX);
  fields.flag("under_way", plan.is_under_way);
}

void go_through(Fields& fields, NodeReport& report) {
  fields.flag("ended", report.has_ended);
  fields.whole("exit_code", report.part.exit_code, 255);
  fields.flag("failed", report.part.failed);
  fields.flag("can_recover", report.part.can_recover);
  fields.signal("signal", report.part.signal);
  fields.line("cause", report.part.cause);
}

void go_through(Fields& fields, NodeStop& stop) {
  fields.signal("signal", stop.signal);
  if (stop.signal == 0) stop.signal = SIGTERM;
  fields.time("limit_ms", stop.limit, kMostGraceMs);
  fields.line("reason", stop.reason);
}

void go_through(Fields& fields, WorkerStarted& started) {
  fields.kind("started");
  fields.whole("worker", started.worker, kMaxWorkers - 1);
  fields.line("host", started.listens.host);
  fields.whole("port", started.listens.port, UINT16_MAX);
  fields.flag("joins", started.joins);
  fields.require(!started.listens.host.empty() && started.listens.host.size() <= kMaxHostBytes);
  fields.require(started.listens.port > 0);
}

void go_through(Fields& fields, WorkerEnded& ended) {
  fields.kind("ended");
  fields.whole("worker", ended.worker, kMaxWorkers - 1);
  fields.whole("code", ended.end.code, 255);
  fields.whole("signal", ended.end.signal, 127);
  fields.time("ran_ms", ended.ran, kMostRanMs);
  fields.require(ended.end.signal == 0 || ended.end.code == kExitSignal + ended.end.signal);
}

void go_through(Fields& fields, WorkerOrder& order) {
  std::string kind = order.starts ? "start" : "kill";
  fields.line("kind", kind);
  fields.require(kind == "start" || kind == "kill");
  fields.whole("worker", order.worker, kMaxWorkers - 1);
  order.starts = kind == "start";
}

}  // namespace

std::string node_task(int node) { return text("node/", node); }

template <class Message>
std::string encode(const Message& message) {
  Fields fields;
  Message copy = message;
  go_through(fields, copy);
  return detail::dump_json(fields.written());
}

template <class Message>
std::optional<Message> decode_message(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    Fields fields(json);
    Message message;
    go_through(fields, message);
    return message;
  });
}

template std::string encode(const NodeHello&);
template std::string encode(const NodeRefusal&);
template std::string encode(const NodePlan&);
template std::string encode(const NodeReport&);
template std::string encode(const NodeStop&);
template std::string encode(const WorkerStarted&);
template std::string encode(const WorkerEnded&);
template std::string encode(const WorkerOrder&);
template std::optional<NodeHello> decode_message(Span<const std::byte>);
template std::optional<NodeRefusal> decode_message(Span<const std::byte>);
template std::optional<NodePlan> decode_message(Span<const std::byte>);
template std::optional<NodeReport> decode_message(Span<const std::byte>);
template std::optional<NodeStop> decode_message(Span<const std::byte>);
template std::optional<WorkerStarted> decode_message(Span<const std::byte>);
template std::optional<WorkerEnded> decode_message(Span<const std::byte>);
template std::optional<WorkerOrder> decode_message(Span<const std::byte>);

}  // namespace troupe
