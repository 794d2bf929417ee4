#include "troupe/distributed/net/connector.h"

#include <algorithm>
#include <utility>

#include "troupe/core/text.h"
#include "troupe/distributed/net/socket_options.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

using ErrorCode = boost::system::error_code;

// Without an answer to SYN the kernel would try for two minutes; a name may resolve to an address
// that drops packets while the next one answers.
constexpr std::chrono::milliseconds kConnectTime{3'000};
// Longer than a stranger may take: the process there answers in turn, and may be busy with many.
constexpr std::chrono::milliseconds kProofTime{5'000};

bool is_connected_to_itself(const tcp::socket& socket) {
  ErrorCode no_local;
  ErrorCode no_remote;
  return socket.local_endpoint(no_local) == socket.remote_endpoint(no_remote) && !no_local &&
         !no_remote;
}

/// Closes the socket so that its port may be listened on at once: an ordinary end would keep it for
/// a minute (TIME_WAIT).
void abandon(tcp::socket& socket) {
  ErrorCode ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

struct Connector::Attempt {
  explicit Attempt(asio::io_context& context) : socket(context), timer(context) {}
  tcp::socket socket;
  asio::steady_timer timer;
  std::vector<tcp::endpoint> endpoints;
  std::size_t next = 0;
};

Connector::Connector(asio::io_context& context, std::string host, std::uint16_t port,
                     Credentials credentials, Purpose purpose, std::string server)
    : context_(context),
      host_(std::move(host)),
      port_(port),
      credentials_(std::move(credentials)),
      purpose_(purpose),
      server_(std::move(server)),
      resolver_(context),
      pause_(context) {}

void Connector::start(std::chrono::milliseconds pause, const std::string& why,
                      OnConnected on_connected, OnTrouble on_trouble) {
  trouble_ = why;
  on_connected_ = std::move(on_connected);
  on_trouble_ = std::move(on_trouble);
  wait(pause);
}

void Connector::stop() {
  on_connected_ = nullptr;
  resolver_.cancel();
  pause_.cancel();
  handshake_.reset();
  if (!attempt_) return;
  ErrorCode ignored;
  attempt_->timer.cancel();
  attempt_->socket.close(ignored);
  attempt_ = nullptr;
}

void Connector::wait(std::chrono::milliseconds pause) {
  run_after(pause_, pause, [this] {
    if (on_connected_) resolve();
  });
}

void Connector::resolve() {
  resolver_.async_resolve(host_, std::to_string(port_), tcp::resolver::numeric_service,
                          [this](const ErrorCode& error, const tcp::resolver::results_type& found) {
                            if (error == asio::error::operation_aborted || !on_connected_) return;
                            if (error)
                              return again(text("its name cannot be resolved: ", error.message()));
                            attempt_ = std::make_shared<Attempt>(context_);
                            for (const auto& entry : found)
                              attempt_->endpoints.push_back(entry.endpoint());
                            try_next(attempt_);
                          });
}

void Connector::try_next(const std::shared_ptr<Attempt>& attempt) {
  ErrorCode error;
  const tcp::endpoint to = attempt->endpoints[attempt->next++];
  attempt->socket.close(error);
  attempt->socket.open(to.protocol(), error);
  if (error) return again(error.message());
  prepare_socket(attempt->socket.native_handle());
  run_after(attempt->timer, kConnectTime, [attempt] {
    ErrorCode ignored;
    attempt->socket.close(ignored);
  });
  attempt->socket.async_connect(to, [this, attempt](ErrorCode failed) {
    attempt->timer.cancel();
    if (attempt != attempt_) return;  // stopped meanwhile
    if (!failed && is_connected_to_itself(attempt->socket)) {
      abandon(attempt->socket);
      failed = asio::error::connection_refused;
    }
    if (!failed) return prove(std::move(attempt->socket));
    if (attempt->next < attempt->endpoints.size()) return try_next(attempt);
    again(failed.message());
  });
}

void Connector::prove(tcp::socket socket) {
  attempt_ = nullptr;
  tune_connected(socket.native_handle());
  handshake_ = Handshake::as_client(
      std::move(socket), credentials_, purpose_, server_, kProofTime,
      [this](ProvenSocket proven) {
        handshake_.reset();
        std::exchange(on_connected_, nullptr)(std::move(proven));
      },
      [this](const std::string& why) {
        handshake_.reset();
        again(why);
      });
}

void Connector::again(const std::string& why) {
  trouble_ = why;
  if (on_trouble_) on_trouble_(why);
  attempt_ = nullptr;
  wait(std::exchange(next_pause_, std::min(2 * next_pause_, kRetryPause)));
}

}  // namespace troupe
