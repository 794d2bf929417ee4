#include "troupe/distributed/elastic/round_messages.h"

#include <limits>

#include "troupe/core/error.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/json_fields.h"

namespace troupe {
namespace {

using detail::Json;
using detail::number_in;
using detail::string_in;

constexpr auto kAnyNumber = std::numeric_limits<std::uint64_t>::max();
constexpr auto kAnyStep = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

void require(bool fits) {
  if (!fits) throw DataError("a message contradicts itself.", "");
}

std::string name_in(const Json& json, const char* key) {
  std::string name = string_in(json, key);
  require(!name.empty() && name.size() <= 255);
  return name;
}

/// Runs `read` on the object and its "kind"; whatever is wrong makes the whole message malformed.
template <class Message, class Read>
std::optional<Message> parse(Span<const std::byte> bytes, Read read) {
  if (bytes.size() > kMaxRoundMessageBytes) return std::nullopt;
  return detail::parse_json(
      bytes, [&](const Json& json) -> Message { return read(json, string_in(json, "kind")); });
}

Json json_of(Started) { return {{"kind", "started"}}; }
Json json_of(Pong) { return {{"kind", "pong"}}; }
Json json_of(LeaveRequest) { return {{"kind", "leave"}}; }
Json json_of(Ping) { return {{"kind", "ping"}}; }
Json json_of(Waiting waiting) { return {{"kind", "waiting"}, {"count", waiting.count}}; }

Json json_of(const Readiness& ready) {
  return {{"kind", "ready"},
          {"round", ready.round},
          {"holds", ready.holds},
          {"admits", ready.admits},
          {"leaves", ready.leaves},
          {"step", ready.step},
          {"lost", ready.lost},
          {"cause", cut_to_fit(ready.cause)},
          {"work", cut_to_fit(ready.work)},
          {"leads", ready.leads}};
}

Readiness readiness_in(const Json& json) {
  Readiness ready;
  ready.round = number_in(json, "round", kAnyNumber);
  ready.holds = json.at("holds").get<bool>();
  ready.admits = json.at("admits").get<bool>();
  ready.leaves = json.at("leaves").get<bool>();
  ready.step = static_cast<std::int64_t>(number_in(json, "step", kAnyStep));
  ready.lost = string_in(json, "lost");
  ready.cause = string_in(json, "cause");
  ready.work = string_in(json, "work");
  ready.leads = json.at("leads").get<bool>();
  require(ready.round > 0 || !ready.holds);  // who joins has nothing yet
  require(ready.holds || !ready.admits);     // nor whom to give it
  require(ready.holds || !ready.leaves);     // and was never there
  require(ready.lost.size() <= 255);
  return ready;
}

Json json_of(const EndOfRounds& end) {
  return {{"kind", "end"},
          {"exit_code", end.exit_code},
          {"cause", cut_to_fit(end.cause)},
          {"fix", cut_to_fit(end.fix)}};
}

Json json_of(const RoundLoss& loss) {
  return {{"kind", "loss"},
          {"round", loss.round},
          {"lost", loss.lost},
          {"cause", cut_to_fit(loss.cause)}};
}

Json json_of(const Departure& departure) {
  return {{"kind", "departure"},
          {"alone", departure.is_alone},
          {"cause", cut_to_fit(departure.cause)},
          {"fix", cut_to_fit(departure.fix)}};
}

Departure departure_in(const Json& json) {
  return {json.at("alone").get<bool>(), string_in(json, "cause"), string_in(json, "fix")};
}

EndOfRounds end_in(const Json& json) {
  return {static_cast<int>(number_in(json, "exit_code", 255)), string_in(json, "cause"),
          string_in(json, "fix")};
}

/// Those that hold the state come first, so their number says which they are.
Json json_of(const Round& round) {
  Json members = Json::array();
  std::size_t holders = 0;
  for (const Round::Member& member : round.members) {
    members.push_back(
        {{"task", member.task}, {"host", member.address.host}, {"port", member.address.port}});
    if (member.holds) ++holders;
  }
  return {{"kind", "round"},    {"number", round.number},        {"generation", round.generation},
          {"rank", round.rank}, {"members", std::move(members)}, {"holders", holders}};
}

Round round_in(const Json& json) {
  Round round;
  round.number = number_in(json, "number", kAnyNumber);
  round.generation = number_in(json, "generation", kAnyNumber);
  const std::size_t holders = number_in(json, "holders", kMaxRoundMembers);
  for (const Json& each : detail::list_in(json, "members")) {
    require(each.is_object());
    const auto port = static_cast<std::uint16_t>(number_in(each, "port", 65535));
    require(port > 0);
    round.members.push_back(
        {name_in(each, "task"), {name_in(each, "host"), port}, round.members.size() < holders});
  }
  require(round.number > 0 && round.members.size() <= kMaxRoundMembers);
  require(holders > 0 && holders <= round.members.size());
  round.rank = static_cast<int>(number_in(json, "rank", round.members.size() - 1));
  return round;
}

}  // namespace

std::string to_json(const WorkerMessage& message) {
  return std::visit([](const auto& each) { return detail::dump_json(json_of(each)); }, message);
}

std::optional<WorkerMessage> worker_message_from(Span<const std::byte> bytes) {
  return parse<WorkerMessage>(bytes,
                              [](const Json& json, const std::string& kind) -> WorkerMessage {
                                if (kind == "ready") return readiness_in(json);
                                if (kind == "pong") return Pong{};
                                if (kind == "leave") return LeaveRequest{};
                                require(kind == "started");
                                return Started{};
                              });
}

std::string to_json(const RendezvousMessage& message) {
  return std::visit([](const auto& each) { return detail::dump_json(json_of(each)); }, message);
}

std::optional<RendezvousMessage> rendezvous_message_from(Span<const std::byte> bytes) {
  return parse<RendezvousMessage>(
      bytes, [](const Json& json, const std::string& kind) -> RendezvousMessage {
        if (kind == "round") return round_in(json);
        if (kind == "waiting")
          return Waiting{static_cast<int>(number_in(json, "count", kMaxRoundMembers))};
        if (kind == "loss")
          return RoundLoss{number_in(json, "round", kAnyNumber), string_in(json, "lost"),
                           string_in(json, "cause")};
        if (kind == "end") return end_in(json);
        if (kind == "departure") return departure_in(json);
        require(kind == "ping");
        return Ping{};
      });
}

}  // namespace troupe
