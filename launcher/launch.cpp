#include "troupe/launcher/launch.h"

#include <sys/prctl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/error.h"
#include "troupe/core/stop_signal.h"
#include "troupe/launcher/launch_group.h"
#include "troupe/launcher/nodes/launch_direction.h"
#include "troupe/launcher/nodes/launch_nodes.h"
#include "troupe/launcher/run/launch_guard.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_screen.h"

namespace troupe {
namespace {

/// The launcher of this machine: starts the group as often as its direction wants, and passes
/// signals and ends on.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options) {}
  [[nodiscard]] int run();

 private:
  [[nodiscard]] std::unique_ptr<LaunchDirection> make_direction(const LaunchOrders& orders);
  void catch_signals();
  void await_signal();
  void on_request(int number);
  [[nodiscard]] std::vector<ProcessStatus> statuses() const;
  void start(GroupStart start);
  [[nodiscard]] PartEnd part_end() const;
  void finish(int exit_code);

  const LaunchOptions& options_;
  LaunchGuard guard_;  // first: it must not inherit what the others open
  std::string program_;
  boost::asio::io_context io_{1};
  LaunchConsole console_{io_, [this](LaunchConsole::Written written) {
                           if (group_) group_->processes().resume();
                           if (written == LaunchConsole::Written::all && is_finished_) io_.stop();
                         }};
  boost::asio::signal_set signals_{io_};
  std::chrono::steady_clock::time_point requested_at_{};
  LaunchScreen screen_{io_, console_, options_.progress};
  std::unique_ptr<LaunchGroup> group_;  // the present start, or the last one
  std::unique_ptr<LaunchDirection> direction_;
  bool is_running_ = false;
  bool is_finished_ = false;
  int exit_code_ = 0;
};

int Launch::run() {
  const Environment own = process_environment();
  const auto path = own.find("PATH");
  program_ = find_program(options_.command[0],
                          path == own.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second);
  LaunchOrders orders{
      [this](GroupStart start_of_group) { start(std::move(start_of_group)); },
      [this](int number, std::chrono::milliseconds limit) {
        if (is_running_) group_->stop(number, limit);
      },
      [this](int exit_code) { finish(exit_code); },
      [this](std::chrono::steady_clock::time_point when) { guard_.allow_until(when); }};
  direction_ = make_direction(orders);  // may wait for a name; a signal then ends the program
  catch_signals();
  direction_->begin();
  io_.run();
  return exit_code_;
}

std::unique_ptr<LaunchDirection> Launch::make_direction(const LaunchOrders& orders) {
  if (options_.node.nodes == 1)
    return std::make_unique<DecidingDirection>(io_, options_, console_, orders);
  if (options_.node.node == 0) return std::make_unique<ChiefNode>(io_, options_, console_, orders);
  return std::make_unique<MemberNode>(io_, options_, console_, orders);
}

/// From here on signals come here, and orphans below this process become its children. SIGHUP stays
/// ignored where it is (nohup).
void Launch::catch_signals() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_.add(SIGCHLD);
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  if (!is_ignored(SIGHUP)) signals_.add(SIGHUP);
  await_signal();
}

void Launch::await_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    await_signal();
    if (number != SIGCHLD) return on_request(number);
    if (group_) group_->on_children();
    screen_.change();
  });
}

/// What follows a request within 0.1 s is the same one.
void Launch::on_request(int number) {
  const auto now = std::chrono::steady_clock::now();
  if (now - requested_at_ < kSameRequest) return;
  requested_at_ = now;
  if (is_finished_) return io_.stop();  // the reader of our output is gone
  if (is_running_) return group_->on_signal(number);
  direction_->on_signal(number);
}

/// Between two starts all processes are about to be replaced.
std::vector<ProcessStatus> Launch::statuses() const {
  std::vector<ProcessStatus> all = group_->processes().statuses();
  if (!is_running_)
    for (ProcessStatus& process : all) process.state = ProcessStatus::State::restarting;
  return all;
}

void Launch::start(GroupStart start) {
  group_ = std::make_unique<LaunchGroup>(
      io_, options_, guard_, console_,
      LaunchGroup::Events{[this] { direction_->on_part(part_end(), /*has_ended=*/false); },
                          [this] {
                            is_running_ = false;
                            direction_->on_part(part_end(), /*has_ended=*/true);
                          },
                          [this] {
                            if (is_running_) exit_code_ = group_->outcome().exit_code();
                            io_.stop();
                          }});
  is_running_ = true;
  start.progress_fd = screen_.descriptor();
  group_->start(program_, std::move(start));
  screen_.begin([this] { return statuses(); });
}

PartEnd Launch::part_end() const {
  const LaunchOutcome& outcome = group_->outcome();
  return {outcome.exit_code(), outcome.failed(), true, outcome.interrupted_by, outcome.cause()};
}

void Launch::finish(int exit_code) {
  exit_code_ = exit_code;
  is_finished_ = true;
  screen_.end();
}

}  // namespace

int launch(const LaunchOptions& options) { return Launch(options).run(); }

}  // namespace troupe
