// One bit of what travels by TCP is turned over on the way, through the real command line: every
// process ends, names the link, and blames neither a hook nor a peer.
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/flipping_proxy.h"
#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

namespace damage_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using Words = std::vector<std::string>;

constexpr std::chrono::milliseconds kLimit = kProcessLimit;

/// A job on this machine, started by hand. Whoever connects to its port connects to the proxy.
class Job {
 public:
  explicit Job(const Flip& flip) : port_(free_port()), proxy_(port_, flip) {
    options_.set["XDG_CONFIG_HOME"] = folder_.path().string();  // of the key
    options_.set["LD_PRELOAD"] = TROUPE_REDIRECT_CONNECT;
    options_.set["ASAN_OPTIONS"] = "verify_asan_link_order=0";
    options_.set["TROUPE_TEST_REDIRECT"] = text(port_, ':', proxy_.port());
  }

  void start(Words more) {
    Words command = {TROUPE_BINARY_DIR "/examples/linear_regression",
                     "--threads",
                     "1",
                     "--batch-size",
                     "40",
                     "--max-steps",
                     "40",
                     "--model-dir",
                     (folder_ / "model").string(),
                     "--save-every",
                     "1000000"};
    command.insert(command.end(), more.begin(), more.end());
    processes_.push_back(std::make_unique<Process>(command, options_));
  }
  [[nodiscard]] std::string address() const { return text("127.0.0.1:", port_); }
  [[nodiscard]] std::vector<ProcessResult> results() {
    std::vector<ProcessResult> all;
    for (const auto& process : processes_) all.push_back(process->wait(kLimit));
    return all;
  }
  [[nodiscard]] bool has_flipped() const { return proxy_.has_flipped(); }
  /// Of the checkpoints.
  [[nodiscard]] std::set<std::string> saved() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "model")) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("model.ckpt-", 0) == 0) names.insert(name.substr(0, name.find('.', 11)));
    }
    return names;
  }

 private:
  TempDir folder_;
  const std::uint16_t port_;
  FlippingProxy proxy_;
  ProcessOptions options_;
  std::vector<std::unique_ptr<Process>> processes_;
};

void start_workers(Job& job) {
  for (const char* rank : {"0", "1"})
    job.start({"--rank", rank, "--world-size", "2", "--chief-address", job.address(), "--transport",
               "tcp"});
}

/// One server, one worker.
void start_with_server(Job& job) {
  const Words cluster = {"--world-size", "1", "--servers", job.address()};
  for (Words own : {Words{"--task", "ps:0"}, Words{"--rank", "0"}}) {
    own.insert(own.end(), cluster.begin(), cluster.end());
    job.start(own);
  }
}

void check_ends(Job& job, const std::string& link) {
  for (const ProcessResult& result : job.results()) {
    CAPTURE(result.err);
    CHECK(result.exit_code == 138);
    CHECK(result.err.find(link + " delivered damaged bytes") != std::string::npos);
    CHECK(result.err.find("do not have the checksum") != std::string::npos);
    CHECK(result.err.find("hook") == std::string::npos);
  }
  CHECK(job.has_flipped());
  CHECK(job.saved() == std::set<std::string>{"model.ckpt-0"});
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("damage: without it these jobs end well") {
    for (const auto& start : {start_workers, start_with_server}) {
      Flip none;
      none.skip = 1'000'000;
      Job job(none);
      start(job);
      for (const ProcessResult& result : job.results()) {
        CAPTURE(result.err);
        CHECK(result.exit_code == 0);
      }
      CHECK(job.saved() == std::set<std::string>{"model.ckpt-0", "model.ckpt-40"});
    }
  }

  TEST_CASE("damage: a bit of a gradient between workers ends the run, with the link's name") {
    Flip flip;
    flip.from = 0;
    flip.skip = 30;
    flip.bit = 77;
    Job job(flip);
    start_workers(job);
    check_ends(job, "the link from worker/0 to worker/1 (127.0.0.1)");
  }

  TEST_CASE("damage: a bit of a header is the link's fault, too, not another collective") {
    Flip flip;
    flip.from = 1;
    flip.skip = 30;
    flip.in_header = true;
    flip.bit = 8 * 24;  // the number of the collective
    Job job(flip);
    start_workers(job);
    check_ends(job, "the link from worker/1 to worker/0 (127.0.0.1)");
  }

  TEST_CASE("damage: a bit of what workers and servers tell each other ends the run") {
    for (const FrameType type : {FrameType::push, FrameType::values}) {
      CAPTURE(static_cast<int>(type));
      Flip flip;
      flip.type = type;
      flip.skip = 10;
      flip.bit = 8 * 50 + 3;
      Job job(flip);
      start_with_server(job);
      check_ends(job, type == FrameType::push ? "the link from worker/0 to ps/0 (127.0.0.1)"
                                              : "the link from ps/0 to worker/0 (127.0.0.1)");
    }
  }
}

}  // namespace damage_test
