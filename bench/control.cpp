#include "bench/control.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::bench {
namespace {

constexpr timeval kPatience{600, 0};
constexpr std::size_t kLongestRequest = 4096;

[[noreturn]] void fail(const std::string& what) {
  throw EnvironmentError(text("BENCH_CONTROL: ", what, ": ", std::strerror(errno), "."),
                         "start this program by a script of bench/, not by hand.");
}

}  // namespace

Control::Control() {
  const char* path = std::getenv("BENCH_CONTROL");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) {
    throw ConfigError("BENCH_CONTROL names no socket.",
                      "start this program by a script of bench/, not by hand.");
  }
  std::strcpy(address.sun_path, path);
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fail(text("no connection to ", path));
  }
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
}

Control::~Control() { close(fd_); }

std::vector<std::string> Control::next() {
  std::size_t line_end = 0;
  while ((line_end = unread_.find('\n')) == std::string::npos) {
    char buffer[512];
    const ssize_t count = recv(fd_, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || unread_.size() > kLongestRequest) fail("no request came");
    if (count == 0) return {"end"};
    unread_.append(buffer, static_cast<std::size_t>(count));
  }
  std::istringstream line(unread_.substr(0, line_end));
  unread_.erase(0, line_end + 1);
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  if (words.empty()) fail("an empty request came");
  return words;
}

void Control::answer(const nlohmann::ordered_json& line) {
  const std::string bytes = line.dump() + "\n";
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("the answer could not be sent");
    sent += static_cast<std::size_t>(count);
  }
}

nlohmann::ordered_json farewell() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {{"peak_rss_bytes", static_cast<std::int64_t>(usage.ru_maxrss) * 1024}};
}

}  // namespace troupe::bench
