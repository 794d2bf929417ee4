// Connector: tries to connect to an address until a process of the job answers or stop() is called.
//
// A name may resolve to several addresses: each is tried, with a limit of its own. If no process
// listens yet on a port of this machine, the kernel may give that very port to the connecting
// socket, which is then connected to itself (RFC 9293, 3.5: simultaneous open): that counts as no
// answer; so does a process that does not prove that it belongs to the job. Thread rule: the
// network thread only.
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
  struct Attempt;
  void resolve();
  void try_next(const std::shared_ptr<Attempt>& attempt);
  void prove(boost::asio::ip::tcp::socket socket);
  void again(const std::string& why);
  void wait(std::chrono::milliseconds pause);

  boost::asio::io_context& context_;
  const std::string host_;
  const std::uint16_t port_;
  const Credentials credentials_;
  const Purpose purpose_;
  const std::string server_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer pause_;
  std::chrono::milliseconds next_pause_{5};
  OnConnected on_connected_;
  OnTrouble on_trouble_;
  std::shared_ptr<Attempt> attempt_;      // the one that counts; null: none
  std::shared_ptr<Handshake> handshake_;  // what became of it
  std::string trouble_;
};

}  // namespace troupe
