#include "launcher/launch_agent.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "core/version.h"
#include "distributed/membership/json_fields.h"
#include "net/timer.h"

namespace troupe {
namespace {

constexpr std::size_t kMaxStartBytes = std::size_t{4} << 20;
constexpr const char* kGreeting = "troupe-agent";
constexpr const char* kDigits = "0123456789abcdef";

std::string hex_of(Span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

std::byte nibble_of(char digit) {
  const std::string_view digits(kDigits);
  const std::size_t at = digits.find(digit);
  if (at == std::string_view::npos) throw DataError("not a hexadecimal digit.", "");
  return static_cast<std::byte>(at);
}

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  if (hex.size() % 2 != 0) throw DataError("half a byte.", "");
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = nibble_of(hex[2 * i]) << 4 | nibble_of(hex[2 * i + 1]);
  return bytes;
}

Span<const std::byte> span_of(std::string_view line) {
  return as_bytes(Span<const char>(line.data(), line.size()));
}

/// One line of stdin, byte by byte: what follows is for others to read.
std::string read_line(std::chrono::milliseconds limit) {
  std::string line;
  for (const Deadline deadline = Deadline::in(limit); line.size() < kMaxStartBytes;) {
    pollfd waited{0, POLLIN, 0};
    if (poll(&waited, 1, static_cast<int>(deadline.remaining().count())) == 0) break;
    char next = 0;
    const ssize_t count = ::read(0, &next, 1);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) break;
    if (next == '\n') return line;
    line += next;
  }
  throw EnvironmentError("the launcher that started this agent did not say what it is to do.",
                         "look for its message; --agent is for `troupe run --hosts` alone.");
}

}  // namespace

std::string encode(const AgentStart& start) {
  return detail::dump_json({{"secret", hex_of(start.secret->bytes())},
                            {"host", start.rendezvous.host},
                            {"port", start.rendezvous.port},
                            {"environment", start.environment}}) +
         '\n';
}

std::string encode(const AgentOrder& order) {
  return order.signal == 0 ? "{}\n" : detail::dump_json({{"signal", order.signal}}) + '\n';
}

std::optional<AgentStart> decode_agent_start(std::string_view line) {
  return detail::parse_json(span_of(line), [](const detail::Json& json) {
    AgentStart start;
    start.secret = std::make_shared<Secret>(bytes_of(detail::string_in(json, "secret")));
    start.rendezvous.host = detail::string_in(json, "host");
    start.rendezvous.port = static_cast<std::uint16_t>(detail::number_in(json, "port", UINT16_MAX));
    start.environment = json.at("environment").get<Environment>();
    return start;
  });
}

std::optional<AgentOrder> decode_agent_order(std::string_view line) {
  return detail::parse_json(span_of(line), [](const detail::Json& json) {
    if (json.empty()) return AgentOrder{};
    const auto number = static_cast<int>(detail::number_in(json, "signal", 64));
    for (const int known : {SIGHUP, SIGINT, SIGTERM})
      if (number == known) return AgentOrder{number};
    throw DataError("a signal that is not passed on.", "");
  });
}

std::string agent_greeting(const std::string& rendezvous) {
  return text(kGreeting, " ", kVersion, " ", rendezvous, "\n");
}

std::optional<AgentGreeting> decode_agent_greeting(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string word;
  AgentGreeting greeting;
  if (!(words >> word) || word != kGreeting) return std::nullopt;
  words >> greeting.version >> greeting.rendezvous;
  return greeting;
}

void take_agent_start(LaunchOptions& options) {
  const auto start = decode_agent_start(read_line(options.node.start_timeout));
  if (!start)
    throw EnvironmentError("the launcher that started this agent says what no launcher says.",
                           "use the same version of Troupe on all hosts.");
  for (const auto& [name, value] : start->environment) setenv(name.c_str(), value.c_str(), 1);
  options.node.secret = start->secret;
  options.node.rendezvous = start->rendezvous;
}

AgentLine::AgentLine(boost::asio::io_context& io, std::function<void(int)> on_signal,
                     std::function<void()> on_gone)
    : in_(io, 0),
      silence_(io),
      lines_([on_signal = std::move(on_signal)](std::string_view line) {
        const auto order = decode_agent_order(line);
        if (order && order->signal != 0) on_signal(order->signal);
      }),
      on_gone_(std::move(on_gone)) {}

void AgentLine::start() {
  expect();
  read();
}

void AgentLine::expect() {
  run_after(silence_, kAgentSilence, [this] { end(); });
}

void AgentLine::read() {
  in_.async_read_some(boost::asio::buffer(buffer_),
                      [this](const boost::system::error_code& error, std::size_t count) {
                        if (error == boost::asio::error::operation_aborted) return;
                        if (error) return end();
                        expect();
                        lines_.feed({buffer_.data(), count});
                        read();
                      });
}

void AgentLine::end() {
  silence_.cancel();
  if (const auto gone = std::exchange(on_gone_, nullptr)) gone();
}

}  // namespace troupe
