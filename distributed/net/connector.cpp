#include "troupe/distributed/net/connector.h"

#include <algorithm>
#include <utility>

#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Without an answer to SYN the kernel would try for two minutes; a name may resolve to an address
// that drops packets while the next one answers.
constexpr std::chrono::milliseconds kConnectTime{3'000};
// Longer than a stranger may take: the process there answers in turn, and may be busy with many.
constexpr std::chrono::milliseconds kProofTime{5'000};

}  // namespace

Connector::Connector(asio::io_context& context, std::string host, std::uint16_t port,
                     Credentials credentials, Purpose purpose, std::string server)
    : context_(context),
      host_(std::move(host)),
      port_(port),
      credentials_(std::move(credentials)),
      asked_{purpose, credentials_.generation, credentials_.task, std::move(server)},
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
}

void Connector::wait(std::chrono::milliseconds pause) {
  run_after(pause_, pause, [this] {
    if (on_connected_) resolve();
  });
}

void Connector::resolve() {
  resolver_.async_resolve(
      host_, std::to_string(port_), tcp::resolver::numeric_service,
      [this](const boost::system::error_code& error, const tcp::resolver::results_type& found) {
        if (error == asio::error::operation_aborted || !on_connected_) return;
        if (error) return again(text("its name cannot be resolved: ", error.message()));
        endpoints_.assign(found.begin(), found.end());
        try_next();
      });
}

void Connector::try_next() {
  const tcp::endpoint to = endpoints_.front();
  endpoints_.pop_front();
  handshake_ = Handshake::call(
      context_, to, {kConnectTime, kProofTime}, credentials_, asked_,
      [this](ProvenSocket proven) {
        handshake_.reset();
        std::exchange(on_connected_, nullptr)(std::move(proven));
      },
      [this](Obstacle obstacle, const std::string& why) {
        handshake_.reset();
        const bool has_answered = obstacle == Obstacle::silence;
        has_answered || endpoints_.empty() ? again(why) : try_next();
      });
}

void Connector::again(const std::string& why) {
  trouble_ = why;
  if (on_trouble_) on_trouble_(why);
  wait(std::exchange(next_pause_, std::min(2 * next_pause_, kRetryPause)));
}

}  // namespace troupe
