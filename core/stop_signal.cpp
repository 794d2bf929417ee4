#include "troupe/core/stop_signal.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// A signal handler can reach nothing else. Any thread may run it.
std::atomic<int> g_requested{0};
std::atomic<Clock::rep> g_requested_at{0};
std::atomic<bool> g_on_terminal{false};
std::array<struct sigaction, kStopSignals.size()> g_former = {};

static_assert(std::atomic<Clock::rep>::is_always_lock_free);

void restore() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    sigaction(kStopSignals[i], &g_former[i], nullptr);
}

void on_signal(int number) {
  const Clock::duration now = Clock::now().time_since_epoch();
  int none = 0;
  if (g_requested == none) g_requested_at = now.count();
  if (g_requested.compare_exchange_strong(none, number)) {
    constexpr std::string_view kAnswer =
        "\ntroupe: stopping after this step, and saving; Ctrl-C once more ends at once.\n";
    if (number == SIGINT && g_on_terminal) {
      [[maybe_unused]] const auto written = write(STDERR_FILENO, kAnswer.data(), kAnswer.size());
    }
    return;
  }
  if (number != SIGINT || now - Clock::duration(g_requested_at) < kSameRequest) return;
  restore();
  raise(SIGINT);  // delivered when this handler has returned
}

}  // namespace

bool is_ignored(int number) {
  struct sigaction action = {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::string signal_name(int number) {
  const char* const name = sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

void unblock_stop_signals() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : kStopSignals) sigaddset(&ours, number);
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
}

StopSignal::StopSignal() {
  g_requested = 0;
  g_on_terminal = isatty(STDERR_FILENO) == 1;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  unblock_stop_signals();
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    const int number = kStopSignals[i];
    const bool kept = number == SIGHUP && is_ignored(number);
    sigaction(number, kept ? nullptr : &action, &g_former[i]);
  }
}

StopSignal::~StopSignal() { restore(); }

int StopSignal::requested() const { return g_requested; }

}  // namespace troupe
