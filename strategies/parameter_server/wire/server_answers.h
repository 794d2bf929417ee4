// Server answers: they pass from a worker's network thread to the training thread; this holds those
// that are not used yet.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/options/cluster.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/strategies/parameter_server/wire/placement.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe {

/// A frame that a server sent.
struct Arrival {
  int server = 0;
  FrameHeader header;
  std::vector<std::byte> payload;
};

/// What a worker's network thread hands to the thread that trains. Frames come out in the order in
/// which each server sent them. The first failure stays and ends every wait.
/// Thread rule: every member may be called from any thread.
class ClientInbox {
 public:
  void deliver(Arrival arrival);
  /// False: there was a failure before.
  bool fail(const Failure& failure);
  [[nodiscard]] std::optional<Failure> failure() const;
  /// Waits for the next frame; none when something failed or the deadline came first.
  [[nodiscard]] std::optional<Arrival> next(const Deadline& deadline);
  /// Waits for a failure; true when there is one.
  bool wait_failed(const Deadline& deadline);

  /// Pushes that are on their way to a server's socket.
  void push_posted(int server);
  void push_written(int server);
  /// False when something failed or the deadline came first.
  [[nodiscard]] bool wait_written(int server, const Deadline& deadline);

  /// The last thing that was heard about why a server does not answer; "" clears it.
  void note(int server, const std::string& text);
  [[nodiscard]] std::string note_of(int server) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arrival> arrivals_;
  std::optional<Failure> failure_;
  std::map<int, int> unwritten_;      // pushes by server
  std::map<int, std::string> notes_;  // by server
};

/// What one server has said that has not been used yet.
struct Heard {
  std::optional<std::int64_t> entry;
  bool entered = false;
  std::optional<Launch> launched;  // the step that training is at; no last one
  std::optional<StepAnswer> step;
  std::optional<PushOutcome> push;
  std::optional<TargetClocks> held;
  std::vector<std::byte> state;
  std::optional<std::int64_t> collected;
  std::optional<PaceStatistics> statistics;
  bool goodbye = false;
};

/// Takes down what a frame says, unless it brings values. False: it is not what a server sends.
[[nodiscard]] bool take_down(Heard& from, Arrival& arrival);

}  // namespace troupe
