// LinkListener: where workers of the same machine make their data links, as Unix sockets.
//
// Its name is in Linux's abstract namespace, so that nothing is left to clean up, and drawn at
// random: only workers of the job are told, and nobody can have taken it before. Both ends ask the
// kernel who the other is (SO_PEERCRED) before a byte is sent or read; then both prove that they
// belong to the job, as everywhere. Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>

#include "troupe/distributed/net/strangers.h"

namespace troupe {

/// The name that belongs to what a worker draws and tells the others: kLinkNameBytes digits.
[[nodiscard]] boost::asio::local::stream_protocol::endpoint local_endpoint_of(
    const std::string& digits);
inline constexpr std::size_t kLinkNameBytes = 16;

/// "" when the process at the other end of a connected Unix socket runs as this process's user,
/// else why it is not trusted.
[[nodiscard]] std::string peer_objection(int fd);

class LinkListener {
 public:
  /// Where no Unix socket can listen, problem() says why. `on_introduction` runs on the context's
  /// thread.
  LinkListener(boost::asio::io_context& context, const Credentials& credentials,
               std::function<void(Introduction)> on_introduction);
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;

  /// The digits of its name; "" where there is a problem.
  [[nodiscard]] const std::string& digits() const { return digits_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void accept_next();
  void accept_one();
  void give_up(const boost::system::error_code& error);

  boost::asio::local::stream_protocol::acceptor acceptor_;
  Strangers guests_;
  std::string digits_;
  std::string problem_;
  // Gone with this object: a handler that runs later, because it was queued before, sees that.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace troupe
