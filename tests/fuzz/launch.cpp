// What launchers read: what other launchers say.
#include <algorithm>
#include <csignal>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/json_messages.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/launcher/nodes/launch_node_messages.h"

namespace troupe::fuzz::launch_target {
namespace {

enum Kind : unsigned char {
  node_hello,
  node_refusal,
  node_plan,
  node_report,
  node_stop,
  own,
  worker_started,
  worker_ended,
  worker_order
};
constexpr unsigned kKinds = worker_order + 1;

bool is_printable(const nlohmann::json& value) {
  if (!value.is_string()) return true;
  const auto& words = value.get_ref<const std::string&>();
  return std::none_of(words.begin(), words.end(),
                      [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

/// Numbers and flags are as they came, but "no signal" to stop with; nothing in texts reaches the
/// terminal but characters.
template <class Message>
bool run_message(FrameType type, std::string_view input) {
  if (input.size() > max_payload_bytes(type)) return false;
  const auto message = decode_message<Message>(bytes_of(input));
  if (!message) return false;
  const std::string written = encode(*message);
  FUZZ_REQUIRE(written.size() <= max_payload_bytes(type));
  const auto came = nlohmann::json::parse(input);
  const auto gone = nlohmann::json::parse(written);
  for (const auto& [key, value] : gone.items()) {
    FUZZ_REQUIRE(is_printable(value));
    FUZZ_REQUIRE(value.is_string() || came.at(key) == value ||
                 (type == FrameType::abort && value == SIGTERM && came.at(key) == 0));
  }
  const auto again = decode_message<Message>(bytes_of(written));
  FUZZ_REQUIRE(again && encode(*again) == written);
  return true;
}

/// Messages that this process makes, with texts that may be anything, fit and are understood.
bool run_own(std::string_view input) {
  Values values(input);
  const int number = static_cast<int>(values.below_or(255));
  const std::string cause = values.text();
  const std::string fix = values.text();
  const NodePlan plan{values.number<std::uint64_t>(), number, kMaxWorkers, 1, cause, 1};
  FUZZ_REQUIRE(
      run_message<NodeHello>(FrameType::hello, encode(NodeHello{number, number, number, true})));
  FUZZ_REQUIRE(run_message<NodeRefusal>(FrameType::refuse, encode(NodeRefusal{cause, fix, false})));
  FUZZ_REQUIRE(run_message<NodePlan>(FrameType::welcome, encode(plan)));
  FUZZ_REQUIRE(run_message<NodeReport>(
      FrameType::report, encode(NodeReport{true, {number, true, false, SIGTERM, cause}})));
  FUZZ_REQUIRE(run_message<NodeStop>(
      FrameType::abort, encode(NodeStop{SIGINT, std::chrono::milliseconds(number), cause})));
  FUZZ_REQUIRE(run_message<WorkerEnded>(
      FrameType::worker,
      encode(WorkerEnded{number, {number, 0}, std::chrono::milliseconds(number)})));
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      seed(node_hello, encode(NodeHello{1, 2, 4, true})),
      seed(node_refusal, encode(NodeRefusal{"node/1 is here.", "start it once.", false})),
      seed(node_plan, encode(NodePlan{1'700'000'000, 1, 6, 2, "10.0.0.1", 41999, true})),
      seed(node_report, encode(NodeReport{true, {137, true, true, SIGTERM, "worker/1 is gone"}})),
      seed(node_stop, encode(NodeStop{SIGINT, std::chrono::seconds(10), "got signal 2"})),
      seed(worker_started, encode(WorkerStarted{5, {"fd00::1", 41999}, true})),
      seed(worker_ended, encode(WorkerEnded{5, {137, SIGKILL}, std::chrono::seconds(3)})),
      seed(worker_order, encode(WorkerOrder{5, true})),
      seed(worker_order, encode(WorkerOrder{5, false})),
      seed(own, std::string(8, '\7') + std::string("\4\0\xC3\xA4\xE2\x82\5\0\"\\\n\x1b[", 13))};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case node_hello:
      return run_message<NodeHello>(FrameType::hello, input);
    case node_refusal:
      return run_message<NodeRefusal>(FrameType::refuse, input);
    case node_plan:
      return run_message<NodePlan>(FrameType::welcome, input);
    case node_report:
      return run_message<NodeReport>(FrameType::report, input);
    case node_stop:
      return run_message<NodeStop>(FrameType::abort, input);
    case worker_started:
      return run_message<WorkerStarted>(FrameType::worker, input);
    case worker_ended:
      return run_message<WorkerEnded>(FrameType::worker, input);
    case worker_order:
      return run_message<WorkerOrder>(FrameType::worker, input);
    default:
      return run_own(input);
  }
}

const Registration registered({"launch", seeds, run});

}  // namespace troupe::fuzz::launch_target
