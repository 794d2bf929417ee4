#include "cli/run_main.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "core/error.h"
#include "core/log.h"

namespace troupe::detail {
namespace {

/// One line, whatever the message holds: scripts and people read the last line of stderr.
void print_error(const char* kind, const std::string& message) {
  std::string line = std::string("troupe: error[") + kind + "]: " + message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  line += '\n';
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

/// What a stranger's exception says, without what LibTorch adds for its own developers.
std::string first_line(const std::string& message) {
  const std::string head = message.substr(0, message.find("Exception raised from"));
  const auto begin = head.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "unknown failure";
  const std::string line = head.substr(begin, head.find('\n', begin) - begin);
  return line.substr(0, line.find_last_not_of(" \t\r(") + 1);
}

}  // namespace

int run_guarded(const std::function<int()>& body) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
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
    print_error("failed", first_line(error.what()));
    return kExitFailed;
  } catch (...) {
    print_error("failed", "an exception that is not a std::exception reached main.");
    return kExitFailed;
  }
}

}  // namespace troupe::detail
