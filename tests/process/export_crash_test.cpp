// Kills a process at every system call between an evaluation and the end of its exports, with
// strace: the next start makes good what is missing, once. Fails those calls, too: what is missing
// is reported, and the next start makes it good.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using troupe::text;
namespace fs = std::filesystem;

using Names = std::vector<std::string>;

bool strace_works() {
  const ProcessResult result = run_process({"strace", "-o", "/dev/null", "/bin/true"});
  if (result.exit_code == 0) return true;
  MESSAGE("skipped: strace does not run here (exit code " << result.exit_code << ")");
  return false;
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The leak check of an address-sanitised build does not work under ptrace.
ProcessResult run_traced(const Names& strace, const fs::path& model_dir, const std::string& role) {
  troupe::testing::ProcessOptions options;
  options.set["ASAN_OPTIONS"] = "detect_leaks=0";
  Names command = {"strace"};
  command.insert(command.end(), strace.begin(), strace.end());
  command.insert(command.end(), {TROUPE_EXPORT_CRASH_RUN, model_dir.string(), role});
  return run_process(command, options);
}

struct Calls {
  int before = 0;  // made by the loader
  int all = 0;
};

void prepare(const fs::path& model_dir) {
  fs::create_directories(model_dir / "model.ckpt-20");
  std::ofstream(model_dir / "model.ckpt-20/manifest.json") << "the manifest of step 20";
}

// How often an undisturbed run makes each call.
std::map<std::string, Calls> count_calls(const TempDir& dir, const std::string& role) {
  prepare(dir / "count");
  const std::string log = (dir / "trace").string();
  REQUIRE(run_traced({"-o", log}, dir / "count", role).exit_code == 0);
  std::map<std::string, Calls> counts;
  bool started = false;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    started = started || line.find("/export-crash-run-starts") != std::string::npos;
    Calls& calls = counts[line.substr(0, line.find('('))];
    ++calls.all;
    if (!started) ++calls.before;
  }
  REQUIRE(started);
  return counts;
}

// One whole export of step 20 by each exporter, and the record of the best names it.
void check_exported_once(const fs::path& model_dir) {
  for (const char* exporter : {"latest", "final", "best"}) {
    CAPTURE(exporter);
    Names exports;
    for (const auto& entry : fs::directory_iterator(model_dir / "export" / exporter)) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") == std::string::npos) exports.push_back(name);
    }
    REQUIRE(exports.size() == 1);
    const fs::path path = model_dir / "export" / exporter / exports[0];
    CHECK(content_of(path / "model.pt") == (model_dir / "model.ckpt-20").string());
    CHECK(nlohmann::json::parse(content_of(path / "evaluation.json"))["step"] == 20);
    if (std::string(exporter) != "best") continue;
    const auto best = nlohmann::json::parse(content_of(model_dir / "export/best/best.json"));
    CHECK(best["export"] == exports[0]);
    CHECK(best["step"] == 20);
  }
}

// Runs the role with `fault` at every call, lets `check` see how it ended, and starts it again.
template <class Check>
int at_every_call(const std::string& role, const Names& names, const std::string& fault,
                  const Check& check) {
  const TempDir dir;
  std::map<std::string, Calls> counts = count_calls(dir, role);
  int cases = 0;
  for (const std::string& call : names) {
    CAPTURE(call);
    CHECK(counts[call].all > counts[call].before);
    for (int n = counts[call].before + 1; n <= counts[call].all; ++n, ++cases) {
      CAPTURE(n);
      const fs::path model_dir = dir / text(call, n);
      prepare(model_dir);
      check(run_traced({"-o", "/dev/null", "-e", "trace=" + call, "-e",
                        text("inject=", call, ":", fault, ":when=", n)},
                       model_dir, role));
      // Twice: what was made good is not made again.
      for (int start = 1; start <= 2; ++start) {
        CAPTURE(start);
        const auto again = run_process({TROUPE_EXPORT_CRASH_RUN, model_dir.string(), role});
        CAPTURE(again.err);
        CHECK(again.exit_code == 0);
        check_exported_once(model_dir);
      }
      fs::remove_all(model_dir);
    }
  }
  return cases;
}

const Names kCalls = {"openat", "write", "fsync", "renameat", "mkdirat"};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("export: killed at every system call, the next start exports what is missing, once") {
    if (!strace_works()) return;
    for (const char* role : {"alone", "chief", "evaluator"}) {
      CAPTURE(role);
      const int cases = at_every_call(role, kCalls, "signal=KILL", [](const ProcessResult& result) {
        CHECK(result.exit_code == 128 + SIGKILL);
      });
      CHECK(cases > 60);
    }
  }

  TEST_CASE("export: a full disk is reported at the end, and the next start exports, once") {
    if (!strace_works()) return;
    int failed = 0;
    at_every_call("chief", {"fsync", "mkdirat"}, "error=ENOSPC", [&](const ProcessResult& result) {
      CAPTURE(result.err);
      CHECK((result.exit_code == 0 || result.exit_code == 1));
      if (result.err.find("exports are missing") != std::string::npos) ++failed;
    });
    CHECK(failed > 10);
  }
}
