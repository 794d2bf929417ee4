#include "troupe/cli/run_main.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/cli/clean_exit.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"

namespace run_main_test {

namespace {

struct Ended {
  int code = -1;
  std::string standard_error;
};

void own_handler(int /*number*/) {}

/// Runs `body` in run_main with stderr going to a file.
Ended run(const std::function<int()>& body) {
  const troupe::testing::TempDir folder;
  const std::string path = folder / "stderr";
  std::fflush(stderr);
  const int saved = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ::dup2(file, STDERR_FILENO);
  Ended ended;
  ended.code = troupe::run_main(body);
  std::fflush(stderr);
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(file);
  std::ifstream in(path);
  ended.standard_error.assign(std::istreambuf_iterator<char>(in), {});
  return ended;
}

template <class Exception>
Ended run_throwing(const Exception& exception) {
  return run([&]() -> int { throw exception; });
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("run_main: what a destructor found undone is a failure, once") {
    const auto body = [] {
      troupe::detail::leave_undone("the loop was left.");
      troupe::detail::leave_undone("so was another.");
      return 0;
    };
    const Ended ended = run(body);
    CHECK(ended.code == 1);
    CHECK(ended.standard_error == "troupe: error[failed]: the loop was left.\n");
    CHECK(run([] { return 0; }).code == 0);
  }

  TEST_CASE(
      "run_main: a library's handler of a stop signal is taken out, the program's own stays") {
    const auto before = std::signal(SIGHUP, SIG_DFL);
    // A function of a library, as its constructor would install one.
    const auto of_library = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "abort"));
    REQUIRE((of_library != nullptr));
    std::signal(SIGHUP, of_library);
    CHECK(troupe::run_main([] {}) == 0);
    CHECK((std::signal(SIGHUP, own_handler) == SIG_DFL));
    CHECK(troupe::run_main([] {}) == 0);
    CHECK((std::signal(SIGHUP, before) == own_handler));
  }

  TEST_CASE("run_main: SIGUSR1 is a SIGTERM, unless the program has a meaning for it") {
    static int terms;
    terms = 0;
    const auto before = std::signal(SIGTERM, [](int) { ++terms; });
    std::signal(SIGUSR1, SIG_DFL);
    CHECK(troupe::run_main([] { std::raise(SIGUSR1); }) == 0);
    CHECK(terms == 1);
    std::signal(SIGUSR1, own_handler);
    CHECK(troupe::run_main([] { std::raise(SIGUSR1); }) == 0);
    CHECK(terms == 1);
    std::signal(SIGUSR1, SIG_DFL);
    std::signal(SIGTERM, before);
  }

  TEST_CASE("run_main: the body's code, or 0 from one that returns nothing") {
    CHECK(troupe::run_main([] { return 7; }) == 7);
    CHECK(troupe::run_main([] {}) == 0);
  }

  TEST_CASE("run_main: an Error is one line with kind, cause and fix, and its exit code") {
    const Ended config = run_throwing(troupe::ConfigError("--epochs is \"0\".", "give a number."));
    CHECK(config.code == 2);
    CHECK(config.standard_error ==
          "troupe: error[config]: --epochs is \"0\". Fix: give a number.\n");
    CHECK(run_throwing(troupe::PeerLost("worker/1 left.", "start again.")).code == 138);
    CHECK(run_throwing(troupe::EnvironmentError("port taken.", "free it.")).code == 3);
    CHECK(run_throwing(troupe::PeerFailed("worker/1 failed.", "", 1)).code == 1);
  }

  TEST_CASE("run_main: newlines and control characters stay out of the line") {
    CHECK(run_throwing(troupe::DataError("a\nb\r\033[31mc.", "d\ne.")).standard_error ==
          "troupe: error[data]: a b  [31mc. Fix: d e.\n");
  }

  TEST_CASE("run_main: a stranger's exception shows its first line, LibTorch's own notes cut") {
    const Ended ended = run_throwing(std::runtime_error(
        "shapes do not match\nException raised from f at x.cpp:3 (most recent call first):\n#0"));
    CHECK(ended.code == 1);
    CHECK(ended.standard_error == "troupe: error[failed]: shapes do not match\n");
    CHECK(run_throwing(std::runtime_error("bad (Exception raised from f)")).standard_error ==
          "troupe: error[failed]: bad\n");
    CHECK(run_throwing(std::runtime_error("")).standard_error ==
          "troupe: error[failed]: unknown failure\n");
  }

  TEST_CASE("run_main: memory, and what is no exception at all") {
    const Ended memory = run_throwing(std::bad_alloc());
    CHECK(memory.code == 1);
    CHECK(memory.standard_error.find("out of memory. Fix: ") != std::string::npos);
    CHECK(run_throwing(42).code == 1);
    CHECK(run_throwing(42).standard_error.find("troupe: error[failed]: ") == 0);
  }

  TEST_CASE("run_main: a clean exit prints nothing") {
    const Ended ended = run_throwing(troupe::detail::CleanExit{0});
    CHECK(ended.code == 0);
    CHECK(ended.standard_error.empty());
    CHECK(run_throwing(troupe::detail::CleanExit{5}).code == 5);
  }

  TEST_CASE("run_main: a closed pipe and a full file do not kill the process") {
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    CHECK(run([] {
            int ends[2];
            if (::pipe(ends) != 0) return 1;
            ::close(ends[0]);
            const bool refused = ::write(ends[1], "x", 1) == -1;
            ::close(ends[1]);
            return refused ? 0 : 2;
          }).code == 0);
    const bool full_file_ignored = std::signal(SIGXFSZ, SIG_IGN) == SIG_IGN;
    CHECK(full_file_ignored);
  }
}

}  // namespace run_main_test
