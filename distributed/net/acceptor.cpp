#include "troupe/distributed/net/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/address.h"
#include "troupe/distributed/net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int kBacklog = 1024;  // the kernel lowers it to net.core.somaxconn
// Between two look-ups of this process's own name.
constexpr std::chrono::milliseconds kNamePause{250};
constexpr double kNameProgressSeconds = 5;

namespace fs = std::filesystem;

constexpr const char* kListenState = "0A";  // TCP_LISTEN in /proc/net/tcp

// Adds the inodes of the sockets that listen on `port` according to one table.
void add_listening_inodes(const char* table, std::uint16_t port, std::vector<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    const auto colon = local.rfind(':');
    if (!fields || state != kListenState || colon == std::string::npos) continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) == port) inodes.push_back(inode);
  }
}

bool holds_one_of(const fs::path& process, const std::vector<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end;
       fd.increment(error)) {
    const std::string target = fs::read_symlink(fd->path(), error).string();
    if (error) {
      error.clear();  // closed meanwhile
      continue;
    }
    for (const auto& inode : inodes) {
      if (target == "socket:[" + inode + "]") return true;
    }
  }
  return false;
}

/// Who listens on a TCP port of this machine, as far as /proc tells this user: "process 4711
/// (python3)", or "" when it cannot be seen (another user's, or no /proc).
std::string describe_port_owner(std::uint16_t port) {
  std::vector<std::string> inodes;
  add_listening_inodes("/proc/net/tcp", port, inodes);
  add_listening_inodes("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return "";
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    const bool is_process =
        std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!is_process || !holds_one_of(entry->path(), inodes)) continue;
    std::string program;
    std::getline(std::ifstream(entry->path() / "comm"), program);
    return text("process ", pid, " (", program, ")");
  }
  return "";
}

// Only a name can come to mean another address.
bool is_name(const std::string& host) {
  boost::system::error_code error;
  static_cast<void>(asio::ip::make_address(host, error));
  return error && host.find(':') == std::string::npos;
}

[[noreturn]] void throw_bind_failed(const tcp::endpoint& wanted,
                                    const boost::system::error_code& error) {
  const std::string where = to_text(wanted);
  if (error == asio::error::address_in_use) {
    const std::string owner = describe_port_owner(wanted.port());
    throw EnvironmentError(text("cannot listen on ", where, ": the port is taken",
                                owner.empty() ? std::string() : " by " + owner, "."),
                           "stop the program that has it, or give this task another port.");
  }
  throw EnvironmentError(text("cannot listen on ", where, ": ", error.message(), "."),
                         "give this task an address that belongs to this machine.");
}

}  // namespace

Acceptor::Acceptor(asio::io_context& context, const std::string& host, std::uint16_t port,
                   std::chrono::milliseconds patience)
    : acceptor_(context) {
  const Deadline limit = Deadline::in(patience);
  double next_line = 0;  // in seconds
  for (;;) {
    const std::string trouble = try_to_listen(host, port);
    if (trouble.empty()) break;
    const std::string what =
        text("the address ", to_text(host, port), " of this process ", trouble);
    if (limit.expired()) {
      throw RendezvousError(
          text(what, " (for ", limit.limit_seconds(), " s, limit --start-timeout)."),
          "check that the network publishes this name for this machine, and that it is spelt "
          "right.");
    }
    const double waited = limit.elapsed_seconds();
    if (waited >= next_line) {
      log_info("waiting: ", what, " (", static_cast<int>(waited), " s of ", limit.limit_seconds(),
               " s)");
      next_line += kNameProgressSeconds;
    }
    std::this_thread::sleep_for(std::min(kNamePause, limit.remaining()));
  }
  endpoint_ = acceptor_.local_endpoint();
}

// "", or why the name is not yet this machine's.  Throws: for what no wait mends.
std::string Acceptor::try_to_listen(const std::string& host, std::uint16_t port) {
  boost::system::error_code error;
  tcp::resolver resolver(acceptor_.get_executor());
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    const std::string trouble = "cannot be resolved: " + error.message();
    if (is_name(host)) return trouble;
    throw EnvironmentError(
        text("the address ", to_text(host, port), " of this process ", trouble, "."),
        "correct it in the cluster description.");
  }
  const tcp::endpoint wanted = found.begin()->endpoint();
  acceptor_.open(wanted.protocol(), error);
  if (error) throw_bind_failed(wanted, error);
  prepare_socket(acceptor_.native_handle());
  // A port whose last owner's connections still linger (TIME_WAIT) may be used again at once.
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (!error) return "";
  if (error != boost::system::errc::address_not_available || !is_name(host))
    throw_bind_failed(wanted, error);
  acceptor_.close(error);
  return text("is ", wanted.address().to_string(), ", which does not belong to this machine");
}

Acceptor::Acceptor(asio::io_context& context, int listen_fd) : acceptor_(context) {
  int listening = 0;
  socklen_t size = sizeof(listening);
  const bool is_listener =
      ::getsockopt(listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
  boost::system::error_code error;
  if (is_listener) {
    acceptor_.assign(socket_family(listen_fd) == AF_INET6 ? tcp::v6() : tcp::v4(), listen_fd,
                     error);
  }
  if (!is_listener || error) {
    throw EnvironmentError(text("descriptor ", listen_fd,
                                ", on which this process is to listen, is no listening TCP socket: "
                                "a program in between closed it."),
                           "let that program pass descriptors on (Python: close_fds=False).");
  }
  prepare_socket(listen_fd);
  // For a later training of this process, which binds the port anew: connections take this on from
  // the socket that accepted them, and linger (TIME_WAIT).
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor_.listen(kBacklog, error);  // again: the launcher's backlog may be short
  endpoint_ = acceptor_.local_endpoint();
}

void Acceptor::start(const Credentials& credentials,
                     std::function<void(Introduction)> on_introduction) {
  acceptor_.non_blocking(true);
  strangers_.emplace(acceptor_.get_executor(), credentials, std::move(on_introduction));
  strangers_->admit_from(Strangers::Listener(std::move(acceptor_)));
}

}  // namespace troupe
