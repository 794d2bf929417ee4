#include "troupe/launcher/nodes/launch_round_lines.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "troupe/distributed/elastic/round_messages.h"
#include "troupe/launcher/run/launch_child.h"

namespace troupe {
namespace {

constexpr int kMostInTurn = 64;  // messages of one worker, before others are read

}  // namespace

RoundLines::RoundLines(boost::asio::io_context& io, OnMessage on_message,
                       std::function<void()> on_turn)
    : io_(io), on_message_(std::move(on_message)), on_turn_(std::move(on_turn)) {}

UniqueFd RoundLines::open(int index) {
  auto [own, of_worker] = make_message_line();
  auto line = std::make_unique<Line>(io_, own.release());
  read(index, *line);
  lines_[index] = std::move(line);
  return std::move(of_worker);
}

void RoundLines::read(int index, Line& line) {
  line.async_wait(Line::wait_read, [this, index, &line](const boost::system::error_code& error) {
    if (error) return;
    drain(index, line);
    on_turn_();
    if (line.is_open()) read(index, line);
  });
}

void RoundLines::drain(int index, Line& line) {
  std::vector<std::byte> buffer(kMaxRoundMessageBytes + 1);  // one that is too long shows
  for (int i = 0; i < kMostInTurn && line.is_open(); ++i) {
    const ssize_t count = recv(line.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return line.close();  // its process ends, or can do without
    on_message_(index, {buffer.data(), static_cast<std::size_t>(count)});
  }
}

void RoundLines::close(int index) {
  const auto found = lines_.find(index);
  if (found == lines_.end() || !found->second->is_open()) return;
  drain(index, *found->second);
  found->second->close();
}

bool RoundLines::send(int index, const std::string& message) {
  const auto found = lines_.find(index);
  if (found == lines_.end() || !found->second->is_open()) return true;
  const int line = found->second->native_handle();
  return ::send(line, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
         (errno != EAGAIN && errno != ENOBUFS);
}

}  // namespace troupe
