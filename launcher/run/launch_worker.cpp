#include "troupe/launcher/run/launch_worker.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

// A reader that falls this far behind makes the workers wait.
constexpr std::size_t kSinkLimitBytes = std::size_t{1} << 20;
constexpr std::size_t kKeptLineBytes = 2000;
constexpr const char* kPeerFailed = "error[peer-failed]";  // of core/error.h's PeerFailed
constexpr std::size_t kLogHeadBytes = 27;  // "2026-11-20T10:21:38.126Z I " (core/log.h)

/// How much of a line of our log, after its head, is the name of the process and a space; 0: it is
/// another line, or without a name.
std::size_t name_bytes(std::string_view line, const std::string& name) {
  const std::string with_space = name + ' ';
  if (line.substr(0, kLogHeadBytes + with_space.size()).size() != kLogHeadBytes + with_space.size())
    return 0;
  constexpr std::string_view kHead = "0000-00-00T00:00:00.000Z ? ";
  for (std::size_t i = 0; i < kLogHeadBytes; ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    const bool fits = kHead[i] == '0'   ? digit
                      : kHead[i] == '?' ? line[i] >= 'A' && line[i] <= 'Z'
                                        : line[i] == kHead[i];
    if (!fits) return 0;
  }
  return line.substr(kLogHeadBytes, with_space.size()) == with_space ? with_space.size() : 0;
}

int open_log(const std::string& path) {
  if (path.empty()) return -1;
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;  // NOLINT
  const int fd = open(path.c_str(), flags, 0666);               // NOLINT
  if (fd < 0)
    throw EnvironmentError(text("cannot write ", path, ": ", std::strerror(errno), "."),
                           "give --log-dir a directory that you may write to.");
  return fd;
}

}  // namespace

LaunchedWorker::LaunchedWorker(boost::asio::io_context& io, LaunchRole role, int index,
                               std::string prefix, std::string log_path, LaunchConsole& console,
                               std::function<void()> on_closed)
    : role_(role),
      index_(index),
      prefix_(std::move(prefix)),
      log_path_(std::move(log_path)),
      log_(open_log(log_path_)),
      console_(console),
      on_closed_(std::move(on_closed)),
      out_(io, console.out(), [this](std::string_view line) { take_line(out_.sink, line); }),
      err_(io, console.err(), [this](std::string_view line) { take_line(err_.sink, line); }) {}

LaunchedWorker::~LaunchedWorker() {
  if (running()) {
    signal(SIGKILL);
    reap();
  }
}

UniqueFd LaunchedWorker::open_stream(Stream& stream) {
  auto [reader, writer] = make_pipe();
  stream.descriptor.assign(reader.release());
  return std::move(writer);
}

void LaunchedWorker::start(ChildStart start) {
  const UniqueFd out = open_stream(out_);
  const UniqueFd err = open_stream(err_);
  start.out_fd = out.get();
  start.err_fd = err.get();
  started_ = std::chrono::steady_clock::now();
  pid_ = start_child(start);
  open_streams_ = 2;
  read(out_);
  read(err_);
}

void LaunchedWorker::signal(int number) {
  if (!running()) return;
  const bool is_request =
      std::find(kStopSignals.begin(), kStopSignals.end(), number) != kStopSignals.end();
  if (is_request || number == SIGKILL) is_asked_to_stop_ = is_request;
  kill(-pid_, number);
}

void LaunchedWorker::reap() {
  // The ended process still holds its number, and with it the group's: nobody else can have it yet.
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  const int killer = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end_ = ChildEnd{killer != 0 ? kExitSignal + killer : WEXITSTATUS(status), killer};
  // Its last words may lie in the pipe still, and say whose failure this was.
  if (end_->failed() && err_.descriptor.is_open()) drain(err_);
  end_->is_echo = end_->signal == 0 && !last_lines_.empty() &&
                  last_lines_.back().find(kPeerFailed) != std::string::npos;
  ran_ = std::chrono::steady_clock::now() - started_;
}

void LaunchedWorker::read(Stream& stream) {
  stream.paused = stream.sink.pending_bytes() > kSinkLimitBytes;
  if (stream.paused) return;
  stream.descriptor.async_read_some(
      boost::asio::buffer(stream.buffer),
      [this, &stream](const boost::system::error_code& error, std::size_t count) {
        if (!stream.descriptor.is_open()) return;
        if (!error) {
          stream.lines.feed({stream.buffer.data(), count});
          console_.flush();
          read(stream);
          return;
        }
        stream.lines.finish();
        stream.descriptor.close();
        console_.flush();
        if (--open_streams_ > 0) return;
        log_.reset();  // of a run with many restarts not one stays open for each
        on_closed_();
      });
}

void LaunchedWorker::resume() {
  for (Stream* stream : {&out_, &err_})
    if (stream->paused && stream->descriptor.is_open()) read(*stream);
}

void LaunchedWorker::drain(Stream& stream) {
  boost::system::error_code error;
  stream.descriptor.non_blocking(true, error);
  for (std::size_t taken = 0; !error && taken < kSinkLimitBytes;) {
    const std::size_t count =
        stream.descriptor.read_some(boost::asio::buffer(stream.buffer), error);
    stream.lines.feed({stream.buffer.data(), count});
    taken += count;
  }
}

void LaunchedWorker::close_streams() {
  for (Stream* stream : {&out_, &err_}) {
    if (!stream->descriptor.is_open()) continue;
    drain(*stream);
    stream->lines.finish();
    stream->descriptor.close();
  }
  open_streams_ = 0;
  log_.reset();
}

void LaunchedWorker::take_line(OutputSink& sink, std::string_view line) {
  sink.append(prefix_);
  const std::size_t repeated = prefix_.empty() ? 0 : name_bytes(line, name());
  sink.append(line.substr(0, repeated == 0 ? 0 : kLogHeadBytes));
  sink.append(line.substr(repeated == 0 ? 0 : kLogHeadBytes + repeated));
  sink.append("\n");
  if (log_.get() >= 0) write_log(line);
  if (last_lines_.size() == kLastLines) last_lines_.pop_front();
  last_lines_.emplace_back(line.substr(0, kKeptLineBytes));
}

void LaunchedWorker::write_log(std::string_view line) {
  const std::string whole = std::string(line) + '\n';
  const auto bytes = as_bytes(Span<const char>(whole.data(), whole.size()));
  const int error = detail::write_fully(log_.get(), bytes, ::write);
  if (error == 0) return;  // else the run is worth more than its log
  err_.sink.append(
      text("troupe: the log of ", name(), " ends here: ", std::strerror(error), ".\n"));
  log_.reset();
}

}  // namespace troupe
