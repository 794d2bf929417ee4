// Handshake: the two ends of a fresh connection prove to each other that they belong to the job.
//
// Encrypted connections (TCP, where Credentials say so) prove it by TLS, others by an exchange of
// HMACs (distributed/net/proof.h); Unix sockets never by TLS. Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/distributed/net/credentials.h"
#include "troupe/distributed/net/proof.h"
#include "troupe/distributed/net/proven_socket.h"

namespace troupe {

/// Why nobody has proven himself: the other end was silent or did not prove itself, nothing leads
/// to it, nobody listens there any more, or the kernel says that it is another user's.
enum class Obstacle { silence, no_way, refusal, stranger };

/// Runs one; destroyed, it forgets the socket and calls nobody. Neither is called before the
/// function that makes it has returned.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  using OnProven = std::function<void(ProvenSocket)>;
  /// `why` is for the log of the end that connected; the one that answers tells strangers nothing.
  using OnFailed = std::function<void(Obstacle, const std::string& why)>;
  struct Limits {
    std::chrono::milliseconds connecting;
    std::chrono::milliseconds proof;  // from then on
  };

  /// The connecting end; it asks for `asked.server` by name. If no process listens on a port of
  /// this machine, the kernel may give that very port to the connecting socket, which is then
  /// connected to itself (RFC 9293, 3.5: simultaneous open): that counts as a refusal.
  static std::shared_ptr<Handshake> call(boost::asio::io_context& context,
                                         const StreamSocket::endpoint_type& to,
                                         const Limits& limits, const Credentials& credentials,
                                         const Identity& asked, OnProven on_proven,
                                         OnFailed on_failed);
  /// The end that answers; the client says what it wants.
  static std::shared_ptr<Handshake> answer(StreamSocket socket, const Credentials& credentials,
                                           std::chrono::milliseconds limit, OnProven on_proven,
                                           OnFailed on_failed);

  /// Whether the other end has begun as the protocol wants: said who it is.
  [[nodiscard]] bool has_opened() const;

 private:
  Handshake(StreamSocket socket, OnProven on_proven, OnFailed on_failed);
  void connected(boost::system::error_code failed, const Credentials& credentials,
                 const Identity& asked, std::chrono::milliseconds limit);
  /// `asked`: what the connecting end wants; null: this end answers.
  void begin(const Credentials& credentials, const Identity* asked,
             std::chrono::milliseconds limit);
  void go_on();
  [[nodiscard]] IoResult exchange();
  void wait();
  void succeed();
  void fail(Obstacle obstacle, const std::string& why);

  ProvenSocket made_;
  std::optional<Proof> proof_;  // none: TLS
  std::vector<std::byte> in_;   // of the proof's next message, what has come
  bool has_heard_ = false;      // anything at all
  OnProven on_proven_;
  OnFailed on_failed_;
  boost::asio::steady_timer limit_;
};

}  // namespace troupe
