#include "troupe/launcher/run/launch_output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "troupe/core/terminal.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

// POSIX: a pipe that poll() calls writable takes this much without blocking (PIPE_BUF).
constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kCompactBytes = std::size_t{1} << 16;

}  // namespace

void LineSplitter::emit() {
  sink_(line_);
  line_.clear();
}

void LineSplitter::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (after_return_) {
      after_return_ = false;
      if (bytes.front() == '\n') {  // "\r\n" is one line end
        emit();
        bytes.remove_prefix(1);
        continue;
      }
      if (!line_.empty()) emit();
    }
    const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const std::size_t taken = std::min(end, kMaxLineBytes - line_.size());
    line_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (taken < end) {
      emit();
    } else if (!bytes.empty()) {
      after_return_ = bytes.front() == '\r';
      if (!after_return_) emit();
      bytes.remove_prefix(1);
    }
  }
}

void LineSplitter::finish() {
  after_return_ = false;
  if (!line_.empty()) emit();
}

void OutputSink::append(std::string_view bytes) {
  if (!broken_) pending_.append(bytes);
}

bool OutputSink::flush() {
  while (pending_bytes() > 0) {
    pollfd ready{fd_, POLLOUT, 0};
    if (poll(&ready, 1, 0) <= 0) break;
    const std::string_view next(pending_.data() + written_, std::min(kPieceBytes, pending_bytes()));
    const std::size_t line_end = next.rfind('\n');
    const std::size_t piece = line_end == std::string_view::npos ? next.size() : line_end + 1;
    const ssize_t count = ::write(fd_, next.data(), piece);
    if (count >= 0) {
      written_ += static_cast<std::size_t>(count);
      if (count > 0) mid_line_ = pending_[written_ - 1] != '\n';
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
      mid_line_ = false;
      pending_.clear();
      written_ = 0;
    }
  }
  if (written_ == pending_.size() || written_ > kCompactBytes) {
    pending_.erase(0, written_);
    written_ = 0;
  }
  return pending_.empty();
}

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
    : retry_(io),
      on_flush_(std::move(on_flush)),
      one_output_(same_file(1, 2)),
      out_is_terminal_(isatty(1) == 1) {}

LaunchConsole::~LaunchConsole() {
  erase_below();
  screen_.flush();
}

void LaunchConsole::say(const std::string& sentence) {
  err_.append(text("troupe: ", sentence, '\n'));
  flush();
}

void LaunchConsole::show_below(std::vector<std::string> lines) {
  below_ = std::move(lines);
  erase_below();
  flush();
}

bool LaunchConsole::waits_for_terminal() const {
  return err_.pending_bytes() > 0 || (out_is_terminal_ && out_.pending_bytes() > 0);
}

void LaunchConsole::erase_below() {
  if (is_drawn_ && terminal_size(2)) screen_.append(kEraseBelow);
  is_drawn_ = false;
}

void LaunchConsole::draw_below() {
  if (is_drawn_ || below_.empty()) return;
  const auto size = terminal_size(2);
  if (!size) return;
  screen_.append(drawn_below(below_, *size));
  is_drawn_ = true;
}

void LaunchConsole::flush() {
  if (waits_for_terminal()) erase_below();
  bool done = screen_.flush();
  if (done) {
    OutputSink& first = err_.mid_line() ? err_ : out_;
    OutputSink& second = err_.mid_line() ? out_ : err_;
    done = first.flush();
    if (!one_output_ || !first.mid_line()) done = second.flush() && done;
    if (!waits_for_terminal()) draw_below();
    done = screen_.flush() && done;
  }
  on_flush_(done ? Written::all : Written::in_part);
  if (done || retry_armed_) return;
  retry_armed_ = true;
  run_after(retry_, kFlushRetry, [this] {
    retry_armed_ = false;
    flush();
  });
}

}  // namespace troupe
