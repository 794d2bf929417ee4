// Connector: connects to an address again and again until somebody answers or stop() is called.
//
// A name may resolve to several addresses: each is tried, with a limit of its own.
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/retry_pause.h"

namespace troupe {

class Connector {
 public:
  using OnConnected = std::function<void(boost::asio::ip::tcp::socket)>;
  /// Before an attempt to reach somebody who answered, and then failed.
  static constexpr std::chrono::milliseconds kRetryPause = RetryPause::kMost;

  Connector(boost::asio::io_context& context, std::string host, std::uint16_t port);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Tries until it has a connection, first after `pause`; one attempt at a time.
  void start(std::chrono::milliseconds pause, OnConnected on_connected);
  void stop();
  /// Why the last attempt failed; "" before one has.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  struct Attempt;
  void resolve();
  void try_next(const std::shared_ptr<Attempt>& attempt);
  void again(const std::string& why);
  void wait(std::chrono::milliseconds pause);

  boost::asio::io_context& context_;
  const std::string host_;
  const std::uint16_t port_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer pause_;
  RetryPause pauses_;
  OnConnected on_connected_;
  std::shared_ptr<Attempt> attempt_;  // the one that counts; null: none
  std::string trouble_;
};

}  // namespace troupe
