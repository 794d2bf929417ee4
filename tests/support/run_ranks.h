// run_ranks: the ranks of a group as threads of one process, over real loopback sockets.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/test_secret.h"
#include "troupe/core/options/cluster.h"
#include "troupe/core/text.h"
#include "troupe/distributed/worker_group.h"

namespace troupe::testing {

/// A listening loopback socket on a port that the system chose; closed unless released.
class LoopbackListener {
 public:
  LoopbackListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (fd_ < 0 || ::bind(fd_, raw, size) != 0 || ::listen(fd_, 64) != 0 ||
        ::getsockname(fd_, raw, &size) != 0) {
      throw std::runtime_error("no loopback socket for the test");
    }
    port_ = ntohs(address.sin_port);
  }
  ~LoopbackListener() {
    if (fd_ >= 0) ::close(fd_);
  }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

/// What TROUPE_TEST_TRANSPORT names: a transport as --transport spells it, or "tls".
inline std::string wanted_transport() {
  const char* const wanted = std::getenv("TROUPE_TEST_TRANSPORT");
  return wanted == nullptr ? name_of(Transport::automatic) : wanted;
}

/// As wanted_transport() says; "tls" is TCP.
inline Transport transport_under_test() {
  const std::string wanted = wanted_transport();
  if (wanted == "tls") return Transport::tcp;
  for (const Transport transport :
       {Transport::automatic, Transport::tcp, Transport::unix_socket, Transport::shared_memory}) {
    if (wanted == name_of(transport)) return transport;
  }
  throw std::runtime_error(text("TROUPE_TEST_TRANSPORT=", wanted, " is no transport"));
}

/// For "tls" 127.0.0.1 as only the system's resolver reads it: to a cluster description it is a
/// host like any other, so what travels there is encrypted.
inline std::string loopback_under_test() {
  return wanted_transport() == "tls" ? "127.1" : "127.0.0.1";
}

/// By when a collective of a test is over, or something is wrong.
inline Deadline soon() { return Deadline::in(std::chrono::seconds(60)); }

/// The same cluster as each rank sees it. Rank 0 owns the listening socket.
inline std::vector<Cluster> make_clusters(int world_size, LoopbackListener& listener) {
  Cluster common;
  common.members.clear();
  for (int rank = 0; rank < world_size; ++rank) {
    common.members.push_back({text("worker/", rank), std::nullopt});
  }
  common.members[0].address = Endpoint{loopback_under_test(), listener.port()};
  common.origin = "test";
  std::vector<Cluster> clusters(static_cast<std::size_t>(world_size), common);
  for (int rank = 0; rank < world_size; ++rank) {
    clusters[static_cast<std::size_t>(rank)].rank = rank;
  }
  clusters[0].listener = troupe::detail::InheritedSocket(listener.release());
  return clusters;
}

/// Limits for tests: a busy machine does not look like a failure.
inline GroupOptions test_options() {
  GroupOptions options;
  options.secret = test_secret();
  options.start_timeout = std::chrono::seconds(60);
  options.collective_timeout = std::chrono::seconds(60);
  options.heartbeat_interval = std::chrono::milliseconds(200);
  options.heartbeat_timeout = std::chrono::seconds(60);
  options.transport = transport_under_test();
  return options;
}

/// What each rank's function threw; null where it returned.
using RankErrors = std::vector<std::exception_ptr>;

/// Runs `fn(rank)` on one thread per rank and waits for all.
inline RankErrors try_ranks(int world_size, const std::function<void(int)>& fn) {
  RankErrors errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        fn(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// The message of what a rank threw, "" where it threw nothing.
inline std::string message_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  } catch (...) {
    return "not a std::exception";
  }
}

/// Throws the lowest failing rank's error with its rank in the text.
inline void throw_first(const RankErrors& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    const std::string message = message_of(errors[rank]);
    if (!message.empty()) throw std::runtime_error(text("rank ", rank, ": ", message));
  }
}

inline void run_ranks(int world_size, const std::function<void(int)>& fn) {
  throw_first(try_ranks(world_size, fn));
}

/// Joins a group of `world_size` threads and runs `fn(group)` on each; closes it afterwards.
inline void run_group(int world_size, const std::function<void(WorkerGroup&)>& fn,
                      const GroupOptions& options = test_options()) {
  LoopbackListener listener;
  const std::vector<Cluster> clusters = make_clusters(world_size, listener);
  run_ranks(world_size, [&](int rank) {
    WorkerGroup group(clusters[static_cast<std::size_t>(rank)], options);
    group.join({});
    fn(group);
    group.close();
  });
}

/// Like run_group, but gives each rank's error back and does not close.
inline RankErrors try_group(int world_size, const std::function<void(WorkerGroup&)>& fn,
                            const GroupOptions& options = test_options(),
                            const std::function<JoinTerms(int)>& terms = nullptr) {
  LoopbackListener listener;
  const std::vector<Cluster> clusters = make_clusters(world_size, listener);
  return try_ranks(world_size, [&](int rank) {
    WorkerGroup group(clusters[static_cast<std::size_t>(rank)], options);
    group.join(terms ? terms(rank) : JoinTerms{});
    fn(group);
  });
}

}  // namespace troupe::testing
