#include "troupe/distributed/net/link_listener.h"

#include <array>
#include <utility>

#include "troupe/core/secret.h"
#include "troupe/core/sha256.h"
#include "troupe/distributed/net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;
using asio::local::stream_protocol;

namespace {

constexpr int kLinkBacklog = 1024;  // the kernel lowers it to net.core.somaxconn

std::string random_digits() {
  std::array<std::byte, kLinkNameBytes / 2> bytes{};
  fill_random({bytes.data(), bytes.size()});
  return hex_of({bytes.data(), bytes.size()});
}

}  // namespace

stream_protocol::endpoint local_endpoint_of(const std::string& digits) {
  // The leading zero byte is what makes it an abstract name.
  return {std::string(1, '\0') + "troupe.link." + digits};
}

LinkListener::LinkListener(asio::io_context& context, const Credentials& credentials,
                           std::function<void(Introduction)> on_introduction)
    : guests_(context.get_executor(), credentials, std::move(on_introduction)),
      digits_(random_digits()) {
  stream_protocol::acceptor acceptor(context);
  boost::system::error_code error;
  acceptor.open(stream_protocol(), error);
  if (!error) set_close_on_exec(acceptor.native_handle());
  if (!error) acceptor.bind(local_endpoint_of(digits_), error);
  if (!error) acceptor.listen(kLinkBacklog, error);
  if (!error) acceptor.non_blocking(true, error);
  const auto on_fault = [this](const boost::system::error_code& fault) {
    problem_ = "no Unix socket can listen: " + fault.message();
    digits_.clear();
  };
  if (error) {
    on_fault(error);
  } else {  // after a fault later peers are refused at once and use TCP
    guests_.admit_from(Strangers::Listener(std::move(acceptor)), on_fault);
  }
}

}  // namespace troupe
