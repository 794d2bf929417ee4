// LaunchRendezvous: the rendezvous of an elastic group in its launcher. Has a line to each worker,
// tells it what they say and when they end, and carries its orders out
// (distributed/elastic/rendezvous.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/unique_fd.h"
#include "distributed/elastic/rendezvous.h"
#include "launcher/launch_child.h"
#include "launcher/launch_output.h"

namespace troupe {

/// Whether training may go on without a worker that ended so: a signal killed it, or it lost
/// others.
[[nodiscard]] bool is_loss(const ChildEnd& end);

class LaunchRendezvous {
 public:
  struct Events {
    std::function<void(int index)> on_expelled;  // its process is to get SIGKILL
    std::function<void()> on_started;            // the first worker holds the state
    /// No round follows. `last`: the worker whose end was the last that was told; -1: none.
    std::function<void(const RoundVerdict& verdict, int last)> on_verdict;
  };

  /// The arguments are the rendezvous's, but for the console, which outlives it. They are called
  /// from handlers of `io`, and from the functions below.
  LaunchRendezvous(boost::asio::io_context& io, LaunchConsole& console,
                   std::unique_ptr<Rendezvous> rendezvous, int workers, Events events);
  LaunchRendezvous(const LaunchRendezvous&) = delete;
  LaunchRendezvous& operator=(const LaunchRendezvous&) = delete;

  /// Makes the line of a worker of the first round, which is about to start; returns its end.
  /// Throws: EnvironmentError.
  [[nodiscard]] UniqueFd open_line(int index);
  /// The same for one that is started again, and listens there.
  [[nodiscard]] UniqueFd open_line_to_join(int index, const Endpoint& listens);
  /// The process has ended. Returns whether that means something: it was not told to, and the group
  /// does not end by it. What follows is done by carry_out().
  [[nodiscard]] bool ended(int index, const ChildEnd& end);
  /// The process that has ended had left the others, because it was told to end.
  [[nodiscard]] bool has_left(int index) { return line(index).has_left; }
  void stop();
  void carry_out();

 private:
  struct Line {
    explicit Line(boost::asio::io_context& io) : descriptor(io) {}
    boost::asio::posix::stream_descriptor descriptor;
    RoundWorker worker;
    bool is_dismissed = false;
    bool has_left = false;
  };

  UniqueFd connect(RoundWorker worker);
  void read(Line& line);
  void drain(Line& line);
  void tell_start();
  void carry_out(const Expulsion& order);
  void carry_out(const RoundLetter& order);
  void carry_out(const RoundBegin& order);
  void carry_out(const RoundVerdict& order);
  void wake_in_time();
  [[nodiscard]] Line& line(int index) { return *lines_[static_cast<std::size_t>(index)]; }

  boost::asio::io_context& io_;
  LaunchConsole& console_;
  const std::unique_ptr<Rendezvous> rendezvous_;
  const Events events_;
  std::vector<std::unique_ptr<Line>> lines_;  // by index
  std::vector<RendezvousOrder> orders_;       // that are still to be carried out
  boost::asio::steady_timer timer_;
  bool has_started_ = false;
  int last_ended_ = -1;
};

}  // namespace troupe
