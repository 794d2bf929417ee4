// RoundLine: a worker's end of the line to its rendezvous, over a descriptor that its launcher
// passed on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/round_messages.h"
#include "troupe/distributed/elastic/rounds.h"

namespace troupe {

/// A thread of its own reads, and answers pings: a worker that computes for long is known to live,
/// a stopped one is not.
class RoundLine final : public Rounds {
 public:
  /// `line`: Cluster::rounds.  Throws: EnvironmentError if it is no socket of this kind.
  explicit RoundLine(UniqueFd line);
  /// The rendezvous reads that the line is closed.
  ~RoundLine() override;
  RoundLine(const RoundLine&) = delete;
  RoundLine& operator=(const RoundLine&) = delete;

  void started() override { send(Started{}); }
  void watch(std::function<void(const RoundLoss&)> on_lost) override;
  [[nodiscard]] std::optional<Round> next(const Readiness& mine) override;
  void ask_to_leave() override;
  [[nodiscard]] std::optional<Departure> departure() const override;
  void leave(const Readiness& mine) override { send(mine); }
  [[nodiscard]] bool joiners_wait() const noexcept override {
    return waiting_.load(std::memory_order_relaxed) > 0;
  }

 private:
  void read();
  void take(RendezvousMessage message);
  void end(EndOfRounds why);
  void send(const WorkerMessage& message) const;

  const UniqueFd line_;
  std::atomic<int> waiting_{0};
  std::atomic<bool> departs_{false};  // departure_ is set
  bool has_asked_ = false;            // to leave
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Round> round_;      // that came and has not been returned
  std::optional<EndOfRounds> end_;  // once set, nothing else comes
  std::optional<Departure> departure_;
  std::function<void(const RoundLoss&)> on_lost_;
  std::thread reader_;
};

}  // namespace troupe
