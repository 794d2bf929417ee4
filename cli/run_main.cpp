#include "troupe/cli/run_main.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "troupe/cli/clean_exit.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"
#include "troupe/core/user_code.h"

namespace troupe::detail {
namespace {

/// One line, whatever the message holds: scripts and people read the last line of stderr.
void print_error(const char* kind, const std::string& message) {
  std::fputs((log_line(text("troupe: error[", kind, "]: ", message)) + '\n').c_str(), stderr);
  std::fflush(stderr);
}

/// Debian 13's LibTorch is linked with MPI, whose UCX catches SIGHUP for its debugger when it is
/// loaded: a program whose terminal was closed would go on for ever. The program's own handlers
/// stay.
void drop_handlers_of_libraries() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&run_guarded), &own) == 0) return;
  for (const int number : kStopSignals) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
    Dl_info handler{};
    const bool is_found = dladdr(reinterpret_cast<void*>(action.sa_handler), &handler) != 0;
    if (is_found && handler.dli_fbase != own.dli_fbase) std::signal(number, SIG_DFL);
  }
}

/// Slurm's --signal=USR1@60, and other batch systems' word that time is nearly up, is SIGTERM's. A
/// program that has a meaning of its own for it keeps that.
void take_usr1_for_term() {
  struct sigaction action = {};
  if (sigaction(SIGUSR1, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) { kill(getpid(), SIGTERM); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

/// Of standard input, output and error those that are closed would be the numbers of the next
/// files, sockets and pipes: what is printed would go there. An output that was closed stays one
/// that cannot be written.
void hold_standard_descriptors() {
  for (int number = 0; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;  // NOLINT: POSIX is variadic
    // It gets the smallest number that is free.
    (void)open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);  // NOLINT
  }
}

}  // namespace

int run_guarded(const std::function<int()>& body) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  hold_standard_descriptors();
  unblock_stop_signals();
  drop_handlers_of_libraries();
  take_usr1_for_term();
  try {
    const int code = body();
    const std::string undone = take_left_undone();
    if (undone.empty()) return code;
    print_error("failed", undone);
    return kExitFailed;
  } catch (const CleanExit& exit) {
    return exit.code;
  } catch (const NothingLeft& done) {
    log_info(done.cause());
    return done.exit_code();
  } catch (const Error& error) {
    print_error(error.kind(), error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    print_error(
        "failed",
        "the process ran out of memory. Fix: lower --batch-size or --train-examples, or run "
        "fewer workers on this machine.");
    return kExitFailed;
  } catch (const std::exception& error) {
    const std::string words = words_of(error);
    print_error("failed", words.empty() ? "unknown failure" : words);
    return kExitFailed;
  } catch (...) {
    print_error("failed", "an exception that is not a std::exception reached main.");
    return kExitFailed;
  }
}

}  // namespace troupe::detail
