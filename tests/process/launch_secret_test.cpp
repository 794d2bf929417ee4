// `troupe secret`, and the secret that `troupe run` hands down.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/terminal.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_with(const std::string& out, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);)
    if (has(line, part)) found.push_back(line.substr(line.find(part)));
  return found;
}

/// A worker's digest of what it was handed, and how many such files it has open.
const std::string kTell =
    "echo digest $(sha256sum < /proc/self/fd/${TROUPE_SECRET_FD:-none});"
    "echo files $(ls -l /proc/self/fd | grep -c memfd:troupe-secret);"
    "echo file-variable $TROUPE_SECRET_FILE.; exit 0";

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("troupe run: workers and servers get one secret of this run, the evaluator none") {
    std::set<std::string> secrets;
    for (int run = 0; run < 2; ++run) {
      const ProcessResult result =
          run_process(run_command({"--workers", "2", "--ps", "1", "--evaluator"},
                                  "test -n \"$TROUPE_SECRET_FD\" || "
                                  "exec echo without $(ls -l /proc/self/fd | grep -c memfd);" +
                                      kTell));
      CAPTURE(result.out);
      CAPTURE(result.err);
      REQUIRE(result.exit_code == 0);
      const auto digests = lines_with(result.out, "digest ");
      CHECK(digests.size() == 3);
      secrets.insert(digests.begin(), digests.end());
      CHECK(lines_with(result.out, "files 1").size() == 3);
      CHECK(has(result.out, "[evaluator/0] without 0\n"));
    }
    CHECK(secrets.size() == 2);  // one for each run
  }

  TEST_CASE("troupe run: a script that closes what it inherits is told how to pass it on") {
    const auto start_by = [](const std::string& how, const std::vector<std::string>& more) {
      std::vector<std::string> words = {kTool, "run", "--workers", "2"};
      words.insert(words.end(), more.begin(), more.end());
      words.insert(words.end(), {"--", "python3", "-c",
                                 "import subprocess, sys\n"
                                 "sys.exit(subprocess.run(sys.argv[1:]" +
                                     how + ").returncode)",
                                 TROUPE_BINARY_DIR "/examples/linear_regression", "--epochs", "1"});
      return words;
    };
    const TempDir dir;
    const std::string path = (dir / "key").string();
    REQUIRE(run_process({kTool, "secret", path}).exit_code == 0);
    const ProcessResult passed = run_process(start_by(", close_fds=False", {}));
    CAPTURE(passed.err);
    CHECK(passed.exit_code == 0);
    const ProcessResult closed = run_process(start_by("", {}));
    CAPTURE(closed.err);
    CHECK(closed.exit_code == 2);
    CHECK(
        has(closed.err, "a program in between closed it. Fix: let that program pass descriptors"));
    // A secret of its own leaves what the launcher listens on.
    std::vector<std::string> own = start_by("", {});
    own.insert(own.end(), {"--secret-file", path});
    const ProcessResult with_secret = run_process(own);
    CAPTURE(with_secret.err);
    CHECK(with_secret.exit_code == 3);
    CHECK(has(with_secret.err, "is no listening TCP socket: a program in between closed it."));
    std::vector<std::string> elastic = start_by("", {"--min-workers", "1"});
    elastic.insert(elastic.end(), {"--virtual-replicas", "4", "--secret-file", path});
    const ProcessResult rounds = run_process(elastic);
    CAPTURE(rounds.err);
    CHECK(rounds.exit_code == 3);
    CHECK(has(rounds.err, "(Python: close_fds=False)"));
  }

  TEST_CASE("troupe run: a secret in a file is handed down as one that was drawn") {
    const TempDir dir;
    const std::string path = (dir / "key").string();
    REQUIRE(run_process({kTool, "secret", path}).exit_code == 0);
    // Without the newline, which is no part of it.
    const std::string digest =
        run_process({"/bin/sh", "-c", "printf %s \"$(cat " + path + ")\" | sha256sum"}).out;
    ProcessOptions variable;
    variable.set["TROUPE_SECRET_FILE"] = path;
    for (const ProcessResult& result :
         {run_process(run_command({"--workers", "1", "--secret-file", path}, kTell)),
          run_process(run_command({"--workers", "1"}, kTell), variable)}) {
      CAPTURE(result.err);
      CHECK(result.exit_code == 0);
      CHECK(has(result.out, "digest " + digest.substr(0, 64)));
      CHECK(has(result.out, "file-variable .\n"));
    }
  }

  TEST_CASE("troupe run: a secret file that others may read ends it before anything starts") {
    const TempDir dir;
    const std::string path = (dir / "key").string();
    REQUIRE(run_process({kTool, "secret", path}).exit_code == 0);
    REQUIRE(chmod(path.c_str(), 0644) == 0);
    check_runs({{"refused",
                 run_command({"--workers", "2", "--secret-file", path}, "echo started"),
                 2,
                 {"troupe: error[config]: --secret-file " + path + " belongs to user ",
                  "mode 0644: it is open to other users. Fix: run `chmod g-w,o= " + path},
                 {{"started", 0}}}});
  }

  TEST_CASE("troupe run: below another one, only the inner one's secret is passed on") {
    const auto inner = run_command({"--workers", "1", "--evaluator"},
                                   "ls -l /proc/self/fd | grep -c memfd; exit 0");
    std::vector<std::string> command = {kTool, "run", "--workers", "1", "--no-prefix", "--"};
    command.insert(command.end(), inner.begin(), inner.end());
    const ProcessResult result = run_process(command);
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "[worker/0] 1\n"));
    CHECK(has(result.out, "[evaluator/0] 0\n"));
  }

  TEST_CASE("troupe secret: a file for its owner alone, or a line on stdout") {
    const TempDir dir;
    const std::string path = (dir / "key").string();
    const ProcessResult made = run_process({kTool, "secret", path});
    CHECK(made.exit_code == 0);
    CHECK(made.out.empty());
    CHECK(made.err.empty());
    CHECK(content_of(path).size() == 65);
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    const std::string before = content_of(path);
    const ProcessResult again = run_process({kTool, "secret", path});
    CHECK(again.exit_code == 2);
    CHECK(has(again.err, path + " is there already. Fix: "));
    CHECK(content_of(path) == before);

    const ProcessResult line = run_process({kTool, "secret"});
    CHECK(line.exit_code == 0);
    CHECK(line.out.size() == 65);
    CHECK(line.out.find_first_not_of("0123456789abcdef\n") == std::string::npos);
    CHECK(line.out != before);
    CHECK(run_process({kTool, "secret", "a", "b"}).exit_code == 2);
    CHECK(run_process({kTool, "secret", "--file"}).exit_code == 2);
    CHECK(run_process({kTool, "secret", (dir / "no/such").string()}).exit_code == 3);
  }

  TEST_CASE("troupe secret: what the shell made for everybody to read becomes its owner's") {
    const TempDir dir;
    const std::string path = (dir / "key").string();
    CHECK(run_process({"/bin/sh", "-c", "umask 022; " + kTool + " secret > " + path}).exit_code ==
          0);
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    CHECK(run_process({"/bin/sh", "-c", kTool + " secret > /dev/full"}).exit_code == 3);
  }

  TEST_CASE("troupe secret: a terminal, which keeps what it shows, is shown none") {
    if (!has_terminals()) return;
    const ProcessResult result =
        run_process({"script", "-qec", kTool + " secret", "/dev/null"});  // of util-linux
    CHECK(result.exit_code == 2);
    CHECK(has(result.out, "a secret does not belong on a terminal"));
  }
}
