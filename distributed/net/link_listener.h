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
#include <string>

#include "troupe/distributed/net/strangers.h"

namespace troupe {

/// The name that belongs to what a worker draws and tells the others: kLinkNameBytes digits.
[[nodiscard]] boost::asio::local::stream_protocol::endpoint local_endpoint_of(
    const std::string& digits);
inline constexpr std::size_t kLinkNameBytes = 16;

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
  Strangers guests_;
  std::string digits_;
  std::string problem_;
};

}  // namespace troupe
