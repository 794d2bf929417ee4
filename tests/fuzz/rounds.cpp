// What the workers of an elastic group and their rendezvous say to each other, and what the
// rendezvous makes of it, whatever its workers say.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/json_messages.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace troupe::fuzz::rounds_target {
namespace {

enum Kind : unsigned char { of_worker, of_rendezvous, group };
constexpr unsigned kKinds = group + 1;

template <class Read>
bool run_message(std::string_view input, const Read& read) {
  const auto message = read(bytes_of(input));
  if (!message) return false;
  const std::string written = to_json(*message);
  FUZZ_REQUIRE(written.size() <= kMaxRoundMessageBytes);
  FUZZ_REQUIRE(covers(nlohmann::json::parse(input), nlohmann::json::parse(written)));
  const auto again = read(bytes_of(written));
  FUZZ_REQUIRE(again && to_json(*again) == written);
  return true;
}

/// Workers that say and suffer anything: a round has living workers only, one of which at least
/// holds the state, and nobody that was expelled lives when it is issued.
class Group {
 public:
  static constexpr int kWorkers = 4;

  bool run(Values values) {
    for (int i = 0; i < 1000 && !values.rest().empty(); ++i) {
      act(values);
      for (const RendezvousOrder& order : rendezvous_.take_orders())
        std::visit([this](const auto& each) { check(each); }, order);
      if (const auto wake = rendezvous_.wakes_at()) FUZZ_REQUIRE(*wake >= now_ || is_over_);
    }
    return true;
  }

 private:
  struct Process {
    int incarnation = 0;
    bool lives = true;
    bool expelled = false;
  };

  static Round first() {
    Round round{1, 1, 0, {}};
    for (int i = 0; i < kWorkers; ++i)
      round.members.push_back({"worker/" + std::to_string(i), {"127.0.0.1", 1000}, false});
    return round;
  }

  void act(Values& values) {
    const auto byte = values.number<std::uint8_t>();
    const int index = byte % kWorkers;
    Process& process = processes_[index];
    const RoundWorker worker{index, process.incarnation};
    switch (byte / kWorkers % 8) {
      case 0:
        return rendezvous_.take(worker, Started{}, now_);
      case 1:
        return rendezvous_.take(worker, Pong{}, now_);
      case 2:
      case 3:
        return rendezvous_.take(worker, readiness(values.number<std::uint8_t>()), now_);
      case 4:
        if (!std::exchange(process.lives, false)) return;
        return void(rendezvous_.ended(worker, code(values.number<std::uint8_t>()), now_));
      case 5:
        if (process.lives || is_over_) return;
        process = {rendezvous_.starts(index, {"127.0.0.1", 1001}).incarnation};
        return;
      case 6:
        now_ += std::chrono::milliseconds(values.number<std::uint16_t>());
        return rendezvous_.tick(now_);
      default: {
        const auto number = values.number<std::uint8_t>();
        if (number % 2 == 1) return rendezvous_.take(worker, LeaveRequest{}, now_);
        if (number > 0) return;
        stops_ = true;
        return rendezvous_.stop(now_);
      }
    }
  }

  static std::optional<int> code(unsigned byte) {
    if (byte < 240) return std::nullopt;
    return static_cast<int>(byte - 240);
  }

  [[nodiscard]] Readiness readiness(unsigned bits) const {
    const bool joins = (bits & 1U) != 0;
    const bool holds = !joins && (bits & 2U) != 0;
    return {joins ? 0 : number_,
            holds,
            holds && (bits & 4U) != 0,
            static_cast<std::int64_t>((bits & 8U) != 0 ? number_ : 0),
            (bits & 16U) != 0 ? "worker/" + std::to_string(bits >> 6U) : "",
            "",
            "",
            holds && (bits & 32U) != 0};
  }

  void check(const Expulsion& order) {
    Process& process = processes_[order.who.index];
    FUZZ_REQUIRE(process.lives && !process.expelled);
    FUZZ_REQUIRE(process.incarnation == order.who.incarnation);
    process.expelled = true;
  }
  void check(const RoundLetter& order) {
    const Process& process = processes_[order.to.index];
    FUZZ_REQUIRE(process.lives && process.incarnation == order.to.incarnation && !is_over_);
    const auto* round = std::get_if<Round>(&order.message);
    if (round == nullptr) return;
    FUZZ_REQUIRE(round->number == number_ || round->number == number_ + 1);
    number_ = round->number;
    FUZZ_REQUIRE(round->members.front().holds);
    const std::string own = "worker/" + std::to_string(order.to.index);
    FUZZ_REQUIRE(round->members.at(static_cast<std::size_t>(round->rank)).task == own);
    std::set<std::string> tasks;
    for (const Round::Member& member : round->members) tasks.insert(member.task);
    FUZZ_REQUIRE(tasks.size() == round->members.size());
    for (int i = 0; i < kWorkers; ++i) {
      FUZZ_REQUIRE(processes_[i].lives || tasks.count("worker/" + std::to_string(i)) == 0);
      FUZZ_REQUIRE(!processes_[i].expelled || !processes_[i].lives || stops_);
    }
  }
  void check(const RoundBegin& order) const { FUZZ_REQUIRE(order.number == number_); }
  void check(const RoundVerdict&) { FUZZ_REQUIRE(!std::exchange(is_over_, true)); }

  StepLosses losses_;
  Rendezvous rendezvous_{{}, first(), losses_, [](std::uint64_t former) { return former + 1; }};
  Process processes_[kWorkers];
  Clock::TimePoint now_{};
  std::uint64_t number_ = 1;
  bool is_over_ = false;
  bool stops_ = false;  // then those that join are no danger
};

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  const Readiness ready{3, true, false, 120, "worker/1", "gone.", "examples 17"};
  const Round round{
      4, 900, 1, {{"worker/0", {"127.0.0.1", 1000}, true}, {"worker/1", {"::1", 1001}, false}}};
  std::string actions;
  for (int i = 0; i < 400; ++i) actions += static_cast<char>((i * 2654435761U) >> 13U);
  return {seed(of_worker, to_json(WorkerMessage(Started{}))),
          seed(of_worker, to_json(WorkerMessage(ready))),
          seed(of_worker, to_json(WorkerMessage(Pong{}))),
          seed(of_rendezvous, to_json(RendezvousMessage(round))),
          seed(of_rendezvous, to_json(RendezvousMessage(Waiting{3}))),
          seed(of_rendezvous, to_json(RendezvousMessage(EndOfRounds{138, "why.", "do."}))),
          seed(of_rendezvous, to_json(RendezvousMessage(Ping{}))),
          seed(of_worker, to_json(WorkerMessage(LeaveRequest{}))),
          seed(of_rendezvous, to_json(RendezvousMessage(Departure{true, "why.", "do."}))),
          seed(group, actions)};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  if (kind == of_worker) return run_message(input, worker_message_from);
  if (kind == of_rendezvous) return run_message(input, rendezvous_message_from);
  return Group().run(Values(input));
}

const Registration registered({"rounds", seeds, run});

}  // namespace troupe::fuzz::rounds_target
