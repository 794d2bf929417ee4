// Connector: tries to connect to an address until a process of the job answers or stop() is called.
//
// A name may resolve to several addresses: each is tried, with a limit of its own. A process that
// does not prove that it belongs to the job counts as no answer. Thread rule: the network thread
// only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "troupe/distributed/net/credentials.h"
#include "troupe/distributed/net/handshake.h"

namespace troupe {

class Connector {
 public:
  using OnConnected = std::function<void(ProvenSocket)>;
  using OnTrouble = std::function<void(const std::string& why)>;
  /// Before the next attempt to reach a process that answered and then failed. Without an answer
  /// the pauses are 5, 10, 20, 40, 80, 100, 100, ... ms: processes started together arrive within
  /// milliseconds of each other, and a late one needs no haste.
  static constexpr std::chrono::milliseconds kRetryPause{100};
  /// After a refusal that may pass, as of a process that is about to be restarted.
  static constexpr std::chrono::milliseconds kRefusedPause{1'000};

  /// `server`: the task that is to answer there.
  Connector(boost::asio::io_context& context, std::string host, std::uint16_t port,
            Credentials credentials, Purpose purpose, std::string server);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Tries until it has a connection, first after `pause`; one attempt at a time. `why`: what is
  /// known of those before, "" for nothing. `on_trouble` hears of every attempt that failed.
  void start(std::chrono::milliseconds pause, const std::string& why, OnConnected on_connected,
             OnTrouble on_trouble = nullptr);
  void stop();
  /// Why the last attempt failed; before one has, what start() was told.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  void resolve();
  void try_next();
  void again(const std::string& why);
  void wait(std::chrono::milliseconds pause);

  boost::asio::io_context& context_;
  const std::string host_;
  const std::uint16_t port_;
  const Credentials credentials_;
  const Identity asked_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer pause_;
  std::chrono::milliseconds next_pause_{5};
  OnConnected on_connected_;
  OnTrouble on_trouble_;
  std::deque<boost::asio::ip::tcp::endpoint> endpoints_;  // of the name, those not tried
  std::shared_ptr<Handshake> handshake_;                  // null: none
  std::string trouble_;
};

}  // namespace troupe
