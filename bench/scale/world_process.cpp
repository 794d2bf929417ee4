// A world in a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/scale/network_port.h"
#include "bench/scale/world.h"
#include "cli/run_main.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe::bench {
namespace {

/// As many descriptors as this user may have; a chief of 256 ranks in one process needs thousands.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int child(const WorldPlan& plan, int out) {
  return run_main([&] {
    raise_descriptor_limit();
    if (plan.network) gain_network_rights();
    const std::string json = measure_world(plan).dump();
    for (std::size_t sent = 0; sent < json.size();) {
      const auto taken = ::write(out, json.data() + sent, json.size() - sent);
      if (taken <= 0) return kExitFailed;
      sent += static_cast<std::size_t>(taken);
    }
    return 0;
  });
}

[[noreturn]] void fail_to_start() {
  throw EnvironmentError(text("a process cannot be started: ", std::strerror(errno), "."),
                         "look at the limits on processes and open files (ulimit -a).");
}

}  // namespace

nlohmann::ordered_json measured_in_child(const WorldPlan& plan) {
  int ends[2];
  if (::pipe(ends) != 0) fail_to_start();
  const pid_t pid = ::fork();
  if (pid < 0) fail_to_start();
  if (pid == 0) {
    ::close(ends[0]);
    ::_exit(child(plan, ends[1]));
  }
  ::close(ends[1]);
  std::string json;
  char buffer[65536];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof(buffer))) != 0;) {
    if (got > 0) json.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) {
    throw PeerFailed(
        text("the run with ", plan.ranks, " ranks ended by signal ", WTERMSIG(status), "."),
        "use fewer ranks, if memory is short.", kExitFailed);
  }
  if (status != 0) throw detail::CleanExit{WEXITSTATUS(status)};  // it has said why
  return nlohmann::ordered_json::parse(json);
}

}  // namespace troupe::bench
