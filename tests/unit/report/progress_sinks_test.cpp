// What a worker sends to its launcher, and to whom it sends nothing.
#include "troupe/report/progress_sinks.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/test_prelude.h"
#include "troupe/core/unique_fd.h"

namespace progress_sinks_test {

using troupe::launcher_sink;
using troupe::Progress;
using troupe::UniqueFd;

namespace {

struct Socket {
  explicit Socket(int kind) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, ends) == 0);
    launcher = UniqueFd(ends[0]);
    worker = UniqueFd(ends[1]);
  }
  /// The next message; empty: none.
  [[nodiscard]] std::string read() const {
    char bytes[2 * troupe::kMostProgressBytes];
    const ssize_t count = recv(launcher.get(), bytes, sizeof bytes, 0);
    return count > 0 ? std::string(bytes, static_cast<std::size_t>(count)) : "";
  }
  UniqueFd launcher;
  UniqueFd worker;
};

struct Variable {
  explicit Variable(const std::string& value) {
    setenv(troupe::kProgressDescriptorVariable, value.c_str(), 1);
  }
  ~Variable() { unsetenv(troupe::kProgressDescriptorVariable); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
};

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("launcher_sink: each progress is a message, and what there is no room for is dropped") {
    Socket socket(SOCK_SEQPACKET);
    const Variable variable(std::to_string(socket.worker.get()));
    const auto sink = launcher_sink();
    REQUIRE(sink);
    CHECK((fcntl(socket.worker.get(), F_GETFD) & FD_CLOEXEC) != 0);
    Progress progress;
    progress.step = 7;
    sink(progress);
    sink(progress);
    CHECK(socket.read() == to_line(progress));
    CHECK(socket.read() == to_line(progress));
    CHECK(socket.read().empty());
    for (progress.step = 0; progress.step < 10'000; ++progress.step) sink(progress);  // no wait
    int arrived = 0;
    while (!socket.read().empty()) ++arrived;
    CHECK(arrived > 0);
    CHECK(arrived < 10'000);
    sink(progress);
    CHECK(socket.read() == to_line(progress));
    socket.launcher.reset();
    sink(progress);  // nor a signal
  }

  TEST_CASE("launcher_sink: a descriptor that is no launcher's gets nothing") {
    CHECK_FALSE(launcher_sink());
    Socket stream(SOCK_STREAM);
    for (const std::string& value :
         {std::string(), std::string("1"), std::string("x"), std::string("-4"), std::string("999"),
          std::string("99999999999999999999"), std::to_string(stream.worker.get())}) {
      CAPTURE(value);
      const Variable variable(value);
      CHECK_FALSE(launcher_sink());
    }
    CHECK(stream.read().empty());
  }

  TEST_CASE("terminal_sink: there is none where stderr is a file") {
    const UniqueFd before(dup(STDERR_FILENO));
    const UniqueFd file(open("/dev/null", O_WRONLY | O_CLOEXEC));  // NOLINT
    dup2(file.get(), STDERR_FILENO);
    const bool has_sink = static_cast<bool>(troupe::terminal_sink());
    dup2(before.get(), STDERR_FILENO);
    CHECK_FALSE(has_sink);
  }
}

}  // namespace progress_sinks_test
