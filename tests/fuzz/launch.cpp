// What launchers read: lists of hosts, and what other launchers say (by the network, or as an agent
// on standard input and output).
#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "launcher/launch_agent.h"
#include "launcher/launch_host_list.h"
#include "launcher/launch_node_messages.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/json_messages.h"

namespace troupe::fuzz::launch_target {
namespace {

enum Kind : unsigned char {
  host_list,
  host_file,
  node_hello,
  node_refusal,
  node_plan,
  node_report,
  node_stop,
  agent_start,
  agent_order,
  agent_greet,
  own,
  worker_started,
  worker_ended,
  worker_order
};
constexpr unsigned kKinds = worker_order + 1;

void check_hosts(const std::vector<HostSlots>& hosts) {
  FUZZ_REQUIRE(!hosts.empty() && hosts.size() <= kMaxNodes);
  int workers = 0;
  std::string list;
  std::string file;
  std::map<std::string, int> by_name;
  for (const HostSlots& host : hosts) {
    FUZZ_REQUIRE(!host.name.empty() && host.name.front() != '-');  // ssh takes that for an option
    FUZZ_REQUIRE(std::all_of(host.name.begin(), host.name.end(),
                             [](unsigned char c) { return c > ' ' && c < 0x7f; }));
    FUZZ_REQUIRE(!address_of(host).empty());
    FUZZ_REQUIRE(host.workers >= 1 && host.workers <= kMaxLocalWorkers);
    workers += host.workers;
    by_name[host.name] = host.workers;
    list += text(list.empty() ? "" : ",", '[', host.name, "]:", host.workers);
    file += text('[', host.name, "] slots=", host.workers, " # more\n");
  }
  FUZZ_REQUIRE(workers <= kMaxWorkers && by_name.size() == hosts.size());
  for (const auto& again : {parse_host_list(list), parse_host_file(file, "hosts")}) {
    FUZZ_REQUIRE(again.size() == hosts.size());
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      FUZZ_REQUIRE(again[i].name == hosts[i].name && again[i].workers == hosts[i].workers);
    }
  }
}

template <class Parse>
bool run_hosts(const Parse& parse) {
  std::vector<HostSlots> hosts;
  if (!accepts<ConfigError>([&] { hosts = parse(); })) return false;
  check_hosts(hosts);
  return true;
}

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

bool run_agent_start(std::string_view input) {
  const auto start = decode_agent_start(input);
  if (!start) return false;
  FUZZ_REQUIRE(start->secret->bytes().size() >= Secret::kMinBytes &&
               start->secret->bytes().size() <= Secret::kMaxBytes);
  const std::string written = encode(*start);
  FUZZ_REQUIRE(covers(nlohmann::json::parse(input), nlohmann::json::parse(written)));
  const auto again = decode_agent_start(written);
  FUZZ_REQUIRE(again && encode(*again) == written);
  return true;
}

bool run_agent_order(std::string_view input) {
  const auto order = decode_agent_order(input);
  if (!order) return false;
  constexpr std::array<int, 4> kKnown{0, SIGHUP, SIGINT, SIGTERM};
  FUZZ_REQUIRE(std::find(kKnown.begin(), kKnown.end(), order->signal) != kKnown.end());
  FUZZ_REQUIRE(decode_agent_order(encode(*order))->signal == order->signal);
  return true;
}

bool run_agent_greeting(std::string_view input) {
  const auto greeting = decode_agent_greeting(input);
  if (!greeting) return false;
  const auto again = decode_agent_greeting(agent_greeting(greeting->rendezvous));
  FUZZ_REQUIRE(again && again->rendezvous == greeting->rendezvous);
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
      FrameType::report, encode(NodeReport{true, {{number, true, false}, SIGTERM, cause}})));
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
  const AgentStart start{std::make_shared<Secret>(std::vector<std::byte>(32, std::byte{7})),
                         {"10.0.0.1", 29500},
                         {{"TROUPE_SEED", "1"}}};
  return {seed(host_list, "a:2,me@b,[fd00::1]:4,a:1"),
          seed(host_file, "# hosts\ngpu1 slots=4 max_slots=8\n\n[fd00::1] # one\n"),
          seed(node_hello, encode(NodeHello{1, 2, 4, true})),
          seed(node_refusal, encode(NodeRefusal{"node/1 is here.", "start it once.", false})),
          seed(node_plan, encode(NodePlan{1'700'000'000, 1, 6, 2, "10.0.0.1", 41999, true})),
          seed(node_report, encode(NodeReport{true, {{137, true}, SIGTERM, "worker/1 is gone"}})),
          seed(node_stop, encode(NodeStop{SIGINT, std::chrono::seconds(10), "got signal 2"})),
          seed(worker_started, encode(WorkerStarted{5, {"fd00::1", 41999}, true})),
          seed(worker_ended, encode(WorkerEnded{5, {137, SIGKILL}, std::chrono::seconds(3)})),
          seed(worker_order, encode(WorkerOrder{5, true})),
          seed(worker_order, encode(WorkerOrder{5, false})),
          seed(agent_start, encode(start)),
          seed(agent_order, encode(AgentOrder{SIGTERM})),
          seed(agent_order, encode(AgentOrder{})),
          seed(agent_greet, agent_greeting("10.0.0.1:41999")),
          seed(own, std::string(8, '\7') + std::string("\4\0\xC3\xA4\xE2\x82\5\0\"\\\n\x1b[", 13))};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case host_list:
      return run_hosts([&] { return parse_host_list(std::string(input)); });
    case host_file:
      return run_hosts([&] { return parse_host_file(std::string(input), "hosts"); });
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
    case agent_start:
      return run_agent_start(input);
    case agent_order:
      return run_agent_order(input);
    case agent_greet:
      return run_agent_greeting(input);
    default:
      return run_own(input);
  }
}

const Registration registered({"launch", seeds, run});

}  // namespace troupe::fuzz::launch_target
