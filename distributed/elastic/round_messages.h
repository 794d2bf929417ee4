// What a worker and the rendezvous of its rounds say to each other: one JSON text in each datagram
// of a SOCK_SEQPACKET socket. Both ends are processes of one launcher, but a worker may run any
// program: what comes is hostile until it is checked.
//
// What is malformed, too long, or contradicts itself gives nullopt, never an exception.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "troupe/core/span.h"
#include "troupe/distributed/elastic/rounds.h"

namespace troupe {

/// Of one datagram.
inline constexpr std::size_t kMaxRoundMessageBytes = std::size_t{64} << 10;

/// The worker holds the run's state (Rounds::started).
struct Started {};
/// It lives; the answer to Ping.
struct Pong {};
/// It was told to end (Rounds::ask_to_leave).
struct LeaveRequest {};
using WorkerMessage = std::variant<Started, Readiness, Pong, LeaveRequest>;

/// How many wait to be admitted.
struct Waiting {
  int count = 0;
};
/// The worker is to end. Exit code 0: training is over.
struct EndOfRounds {
  int exit_code = 0;  // 0 to 255
  std::string cause;  // sentences, each ends with '.'
  std::string fix;
};
/// The usual fix.
inline constexpr const char* kRunAgain =
    "start the run again; with --model-dir it resumes from its newest checkpoint.";
struct Ping {};
using RendezvousMessage = std::variant<Round, Waiting, RoundLoss, EndOfRounds, Ping, Departure>;

/// Texts are cut to what a datagram carries.
[[nodiscard]] std::string to_json(const WorkerMessage& message);
[[nodiscard]] std::optional<WorkerMessage> worker_message_from(Span<const std::byte> bytes);

/// A round of up to kMaxRoundMembers fits.
inline constexpr std::size_t kMaxRoundMembers = 1024;
[[nodiscard]] std::string to_json(const RendezvousMessage& message);
[[nodiscard]] std::optional<RendezvousMessage> rendezvous_message_from(Span<const std::byte> bytes);

}  // namespace troupe
