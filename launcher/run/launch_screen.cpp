#include "troupe/launcher/run/launch_screen.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "troupe/core/terminal.h"
#include "troupe/core/text.h"
#include "troupe/launcher/run/launch_child.h"
#include "troupe/launcher/run/launch_policy.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kDrawInterval{100};
constexpr std::chrono::milliseconds kIdleInterval{1'000};  // to show what nobody tells
constexpr int kMostAtOnce = 256;  // messages, before others have their turn
constexpr std::size_t kMostKnown = 4096;

}  // namespace

LaunchScreen::LaunchScreen(boost::asio::io_context& io, LaunchConsole& console, bool wanted)
    : console_(console), receiver_(io), pause_(io) {
  if (!wanted || !terminal_size(STDERR_FILENO)) return;
  auto [receiver, senders] = make_message_line();
  receiver_.assign(receiver.release());
  senders_ = std::move(senders);
  read();
}

void LaunchScreen::read() {
  receiver_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         std::array<char, kMostProgressBytes + 1> buffer;  // NOLINT: recv fills it
                         for (int i = 0; i < kMostAtOnce; ++i) {
                           const ssize_t count = recv(receiver_.native_handle(), buffer.data(),
                                                      buffer.size(), MSG_DONTWAIT);
                           if (count < 0) break;
                           take({buffer.data(), static_cast<std::size_t>(count)});
                         }
                         read();
                       });
}

/// Of a worker, which may run any program: what is no progress is ignored.
void LaunchScreen::take(std::string_view line) {
  auto progress = progress_from_line(line);
  const std::string name = progress ? task_name(LaunchRole::worker, progress->rank) : "";
  if (!progress || (workers_.size() == kMostKnown && workers_.count(name) == 0)) return;
  if (!progress_ || progress->rank <= progress_->rank) progress_ = progress;
  workers_[name] = std::move(*progress);
  change();
}

void LaunchScreen::begin(Processes processes) {
  processes_ = std::move(processes);
  progress_.reset();
  workers_.clear();
  change();
}

void LaunchScreen::change() { draw_at(drawn_at_ + kDrawInterval); }

void LaunchScreen::draw_at(std::chrono::steady_clock::time_point when) {
  if (descriptor() < 0 || !processes_) return;
  pause_.expires_at(when);
  pause_.async_wait([this](const boost::system::error_code& error) {
    if (error || !processes_) return;
    draw();
    draw_at(drawn_at_ + kIdleInterval);
  });
}

void LaunchScreen::draw() {
  drawn_at_ = std::chrono::steady_clock::now();
  const auto size = terminal_size(STDERR_FILENO);
  if (!size) return;
  std::vector<ProcessStatus> processes = processes_();
  for (ProcessStatus& process : processes) {
    const auto told = workers_.find(process.name);
    if (told == workers_.end()) continue;
    if (process.state != ProcessStatus::State::running) {
      workers_.erase(told);  // one that takes its place has told nothing yet
      continue;
    }
    using Activity = Progress::Activity;
    if (told->second.activity == Activity::training) process.state = ProcessStatus::State::training;
    if (told->second.activity == Activity::validating)
      process.state = ProcessStatus::State::validating;
    process.step = told->second.step;
  }
  console_.show_below(progress_block(progress_, processes, {size->columns, wants_colors()}));
}

void LaunchScreen::end() {
  processes_ = nullptr;
  pause_.cancel();
  console_.show_below({});
}

}  // namespace troupe
