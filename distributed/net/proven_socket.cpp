#include "troupe/distributed/net/proven_socket.h"

#include <sys/socket.h>

#include <boost/system/error_code.hpp>

#include "troupe/distributed/net/socket_options.h"

namespace troupe {

IoResult read_now(ProvenSocket& from, Span<std::byte> into) {
  if (from.tls) return from.tls->read_some(into, {});
  return result_of_call(
      ::recv(from.socket.native_handle(), into.data(), into.size(), MSG_DONTWAIT));
}

IoResult write_now(ProvenSocket& to, Span<const std::byte> first, Span<const std::byte> second) {
  if (to.tls) return to.tls->write_some(first, second);
  return result_of_call(send_parts(to.socket.native_handle(), first, second));
}

void ProvenSocket::close() {
  tls.reset();  // which still writes to the socket
  boost::system::error_code ignored;
  socket.close(ignored);
}

void read_fully(ProvenSocket& from, Span<std::byte> into, const std::function<void(bool)>& then) {
  while (!into.empty()) {
    if (!from.socket.is_open()) return then(false);
    const IoResult got = read_now(from, into);
    if (got.state == IoResult::State::closed) return then(false);
    if (got.state == IoResult::State::would_block) {
      const bool writes = from.tls && from.tls->wants_write();
      return from.socket.async_wait(writes ? StreamSocket::wait_write : StreamSocket::wait_read,
                                    [&from, into, then](const boost::system::error_code& error) {
                                      error ? then(false) : read_fully(from, into, then);
                                    });
    }
    into = into.subspan(got.bytes, into.size() - got.bytes);
  }
  then(true);
}

bool send_now(ProvenSocket& to, Span<const std::byte> bytes) {
  const IoResult sent = write_now(to, bytes, {});
  return sent.state == IoResult::State::moved && sent.bytes == bytes.size();
}

}  // namespace troupe
