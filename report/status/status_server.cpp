#include "troupe/report/status/status_server.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <future>
#include <list>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/report/status/status_session.h"

namespace troupe {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using detail::StatusSession;

namespace {

// For open pages to be told the end.
constexpr std::chrono::milliseconds kEndTime{700};
// After an accept that failed (no descriptor left): try again when some may be free.
constexpr std::chrono::milliseconds kAcceptPause{100};

/// A program that training starts is not to hold the port.
void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }  // NOLINT

[[noreturn]] void throw_no_address(const std::string& where, const error_code& error) {
  if (error == asio::error::address_in_use) {
    throw EnvironmentError(
        text("the live page cannot listen on ", where, ": the port is taken."),
        "stop the program that has it, or give another --status; 0 is any that is free.");
  }
  throw EnvironmentError(
      text("the live page cannot listen on ", where, ": ", error.message(), "."),
      "name an address of this machine and a port that you may use, --status HOST:PORT.");
}

}  // namespace

class StatusServer::Impl {
 public:
  Impl(const Place& place, Run run, const Limits& limits);
  ~Impl();
  [[nodiscard]] const std::string& url() const { return url_; }
  void update(const Progress& progress) { content_.progress.put(progress); }

 private:
  void listen(const Place& place);
  void run_thread();
  void accept_next();
  void admit(tcp::socket socket);

  const std::string token_;  // empty: none is asked for
  detail::StatusContent content_;
  std::string url_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer pause_{context_};
  std::list<std::shared_ptr<StatusSession>> sessions_;  // oldest first
  std::future<void> thread_;                            // last: it uses the others
};

StatusServer::Impl::Impl(const Place& place, Run run, const Limits& limits)
    : token_(place.host.empty() ? "" : detail::new_status_token()),
      content_{detail::StatusAccess(token_), std::move(run), limits} {
  listen(place);
  accept_next();
  const NoSignals in_thread;
  thread_ = std::async(std::launch::async, [this] { run_thread(); });
}

StatusServer::Impl::~Impl() {
  asio::post(context_, [this] {
    acceptor_.close();
    pause_.cancel();
    for (const auto& session : sessions_) session->finish();
  });
  // It ends when every connection has.
  if (thread_.wait_for(kEndTime) != std::future_status::ready) context_.stop();
  thread_.wait();
}

void StatusServer::Impl::listen(const Place& place) {
  const std::string host = place.host.empty() ? "127.0.0.1" : place.host;
  std::string where = text(host, ":", place.port);
  error_code error;
  const auto found = tcp::resolver(context_).resolve(
      host, text(place.port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) throw_no_address(where, error);
  const tcp::endpoint wanted = found.begin()->endpoint();
  acceptor_.open(wanted.protocol(), error);
  if (error) throw_no_address(where, error);
  close_on_exec(acceptor_.native_handle());
  // A port whose last owner's connections still linger (TIME_WAIT) may be used again at once.
  acceptor_.set_option(tcp::acceptor::reuse_address(true));
  acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) throw_no_address(where, error);
  const auto address = acceptor_.local_endpoint().address();
  std::string name = address.is_unspecified() ? asio::ip::host_name() : address.to_string();
  if (name.find(':') != std::string::npos) name = "[" + name + "]";
  url_ = text("http://", name, ":", acceptor_.local_endpoint().port(), "/",
              token_.empty() ? "" : "?token=", token_);
}

/// Whatever happens here, training goes on.
void StatusServer::Impl::run_thread() {
  name_this_thread("live page");
  for (bool done = false; !done;) {
    try {
      context_.run();
      done = true;
    } catch (const std::exception& error) {
      log_warning("the live page: ", error.what());
    }
  }
}

void StatusServer::Impl::accept_next() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      accept_next();
      return admit(std::move(socket));
    }
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code&) {
      if (acceptor_.is_open()) accept_next();
    });
  });
}

void StatusServer::Impl::admit(tcp::socket socket) {
  using Stage = StatusSession::Stage;
  close_on_exec(socket.native_handle());
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  sessions_.remove_if([](const auto& session) { return session->stage() == Stage::closed; });
  if (sessions_.size() >= content_.limits.connections) {
    const auto oldest = std::find_if(sessions_.begin(), sessions_.end(), [](const auto& session) {
      return session->stage() != Stage::streaming;
    });
    if (oldest == sessions_.end()) return;  // closes the new one
    (*oldest)->close();
    sessions_.erase(oldest);
  }
  sessions_.push_back(std::make_shared<StatusSession>(std::move(socket), content_));
  sessions_.back()->start();
}

StatusServer::StatusServer(const Place& place, Run run, const Limits& limits)
    : impl_(std::make_unique<Impl>(place, std::move(run), limits)) {}
StatusServer::~StatusServer() = default;
std::string StatusServer::url() const { return impl_->url(); }
void StatusServer::update(const Progress& progress) { impl_->update(progress); }

}  // namespace troupe
