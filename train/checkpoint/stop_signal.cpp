#include "train/checkpoint/stop_signal.h"

#include <signal.h>

namespace troupe {
namespace {

// A signal handler has nothing else to write to.
volatile sig_atomic_t g_requested = 0;
struct sigaction g_former = {};

void remember(int) { g_requested = 1; }

}  // namespace

StopSignal::StopSignal() {
  g_requested = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &g_former);
}

StopSignal::~StopSignal() { sigaction(SIGTERM, &g_former, nullptr); }

bool StopSignal::requested() const { return g_requested != 0; }

}  // namespace troupe
