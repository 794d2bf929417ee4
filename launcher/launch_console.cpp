#include "launcher/launch_console.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "core/text.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kFlushRetry{2};

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

LaunchConsole::LaunchConsole(boost::asio::io_context& io, std::function<void(Written)> on_flush)
    : retry_(io), on_flush_(std::move(on_flush)), one_output_(same_file(1, 2)) {}

void LaunchConsole::say(const std::string& sentence) {
  err_.append(text("troupe: ", sentence, '\n'));
  flush();
}

void LaunchConsole::flush() {
  OutputSink& first = err_.mid_line() ? err_ : out_;
  OutputSink& second = err_.mid_line() ? out_ : err_;
  bool done = first.flush();
  if (!one_output_ || !first.mid_line()) done = second.flush() && done;
  on_flush_(done ? Written::all : Written::in_part);
  if (done || retry_armed_) return;
  retry_armed_ = true;
  retry_.expires_after(kFlushRetry);
  retry_.async_wait([this](const boost::system::error_code& error) {
    retry_armed_ = false;
    if (!error) flush();
  });
}

}  // namespace troupe
