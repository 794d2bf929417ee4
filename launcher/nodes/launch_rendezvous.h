// LaunchRendezvous: the rendezvous of an elastic group in its launcher, on several machines in that
// of node 0. Has a line to each worker, tells it what they say and when they end, and carries its
// orders out (distributed/elastic/rendezvous.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/rendezvous.h"
#include "troupe/launcher/nodes/launch_remote_workers.h"
#include "troupe/launcher/nodes/launch_round_lines.h"
#include "troupe/launcher/run/launch_child.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_rounds.h"

namespace troupe {

class LaunchRendezvous final : public LaunchRounds {
 public:
  struct Events {
    std::function<void(int index)> on_expelled;  // its process, which is here, is to get SIGKILL
    std::function<void()> on_started;            // the first worker holds the state
    /// No round follows. `last`: the worker whose end was the last that was told; -1: none.
    std::function<void(const RoundVerdict& verdict, int last)> on_verdict;
    // Of workers on other nodes.
    std::function<void(int index, const EndedProcess& process)> on_remote_end = nullptr;
    std::function<void()> on_remote_change = nullptr;  // after that, and after the loss of a node
    std::function<void(int index)> on_remote_back = nullptr;  // RemoteWorkers::Events
  };

  /// `console` and `remote` (null: all workers are here) outlive it. Events come in handlers of
  /// `io`, and in the functions below.
  LaunchRendezvous(boost::asio::io_context& io, LaunchConsole& console,
                   std::unique_ptr<Rendezvous> rendezvous, int workers, Events events,
                   RemoteWorkers* remote = nullptr);
  LaunchRendezvous(const LaunchRendezvous&) = delete;
  LaunchRendezvous& operator=(const LaunchRendezvous&) = delete;

  [[nodiscard]] UniqueFd open_line(int index, const Endpoint& listens, bool joins) override;
  /// False also where the group ends by it.
  [[nodiscard]] bool ended(int index, const EndedProcess& process) override;
  [[nodiscard]] bool has_left(int index) const override {
    return workers_[static_cast<std::size_t>(index)].has_left;
  }
  [[nodiscard]] const EndedProcess* lost_chief() const override {
    return lost_chief_ ? &*lost_chief_ : nullptr;
  }
  void stop() override;
  void carry_out() override;
  [[nodiscard]] bool start_elsewhere(int index) override;
  [[nodiscard]] bool goes_on(bool is_over) const override;

 private:
  struct Worker {
    RoundWorker who;
    bool is_dismissed = false;
    bool has_left = false;
  };

  void listen_to_remote();
  void take(int index, Span<const std::byte> bytes);
  void tell_start();
  [[nodiscard]] bool send(int index, const std::string& message);
  void carry_out(const Expulsion& order);
  void carry_out(const RoundLetter& order);
  void carry_out(const RoundBegin& order);
  void carry_out(const RoundVerdict& order);
  void wake_in_time();
  [[nodiscard]] bool is_remote(int index) const {
    return remote_ != nullptr && remote_->has(index);
  }
  [[nodiscard]] Worker& worker(int index) { return workers_[static_cast<std::size_t>(index)]; }

  LaunchConsole& console_;
  const std::unique_ptr<Rendezvous> rendezvous_;
  const Events events_;
  RemoteWorkers* const remote_;
  RoundLines lines_;                     // of the workers here
  std::vector<Worker> workers_;          // by index
  std::vector<RendezvousOrder> orders_;  // that are still to be carried out
  boost::asio::steady_timer timer_;
  bool has_started_ = false;
  int last_ended_ = -1;
  std::optional<EndedProcess> lost_chief_;
};

}  // namespace troupe
