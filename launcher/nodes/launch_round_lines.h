// RoundLines: this launcher's ends of the lines on which the workers of its machine and the
// rendezvous of their elastic group talk (distributed/elastic/round_messages.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "troupe/core/span.h"
#include "troupe/core/unique_fd.h"

namespace troupe {

class RoundLines {
 public:
  /// One datagram of a worker, of kMaxRoundMessageBytes and one more at most.
  using OnMessage = std::function<void(int index, Span<const std::byte> bytes)>;

  /// `on_message` runs in handlers of `io`, and in close(); `on_turn` at the end of each handler.
  RoundLines(boost::asio::io_context& io, OnMessage on_message, std::function<void()> on_turn);
  RoundLines(const RoundLines&) = delete;
  RoundLines& operator=(const RoundLines&) = delete;

  /// Makes the line of a worker, in the place of a former one; returns the worker's end.
  /// Throws: EnvironmentError.
  [[nodiscard]] UniqueFd open(int index);
  /// The worker's process has ended: takes its last words.
  void close(int index);
  /// False: the worker does not read what it is told. Where there is no line nothing happens.
  [[nodiscard]] bool send(int index, const std::string& message);

 private:
  using Line = boost::asio::posix::stream_descriptor;

  void read(int index, Line& line);
  void drain(int index, Line& line);

  boost::asio::io_context& io_;
  const OnMessage on_message_;
  const std::function<void()> on_turn_;
  std::map<int, std::unique_ptr<Line>> lines_;  // by index; closed ones stay
};

}  // namespace troupe
