// --status through the real command line: what a training shows while it runs, alone and with
// others, and how the page learns of the end.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/net/raw_client.h"
#include "tests/process/launch_support.h"
#include "tests/support/eventually.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace status_test {

using namespace troupe::testing;  // NOLINT: a test
using nlohmann::json;
using troupe::text;

namespace {

constexpr int kSkipped = 77;

constexpr int kSteps = 300;

/// Every tenth step is summarised.
Words training(const TempDir& dir, const Words& program = kMnist, int steps = kSteps) {
  return program + Words{"--train-examples",
                         "1000",
                         "--batch-size",
                         "20",
                         "--max-steps",
                         text(steps),
                         "--threads",
                         "1",
                         "--no-progress",
                         "--model-dir",
                         dir.path().string(),
                         "--save-summary-steps",
                         "10",
                         "--log-every",
                         "10"};
}
Words shown_training(const TempDir& dir, const Words& program = kMnist, int steps = kSteps,
                     const std::string& where = "0") {
  return training(dir, program, steps) + Words{"--status", where};
}

/// A training that waits, once its page can be opened, until go_on().
class Shown {
 public:
  explicit Shown(const Words& command) : process_(command) {
    REQUIRE(process_.wait_for_output("live page: http://", kLimit));
    REQUIRE(process_.wait_for_output("/", kLimit));
    const std::string& log = process_.err();
    url_ = log.substr(log.find("http://"));
    url_ = url_.substr(0, url_.find_first_of(" \n"));
  }
  [[nodiscard]] std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(url_.substr(url_.find(':', 5) + 1)));
  }
  /// "?token=...", or nothing.
  [[nodiscard]] std::string query() const {
    return has(url_, "?") ? url_.substr(url_.find('?')) : "";
  }
  [[nodiscard]] std::string ask(const std::string& target) const {
    RawClient client(port());
    client.send(request(target));
    return client.read_to_end();
  }
  static std::string request(const std::string& target) {
    return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  Process& process() { return process_; }

 private:
  Process process_;
  std::string url_;
};

/// The data of a stream's events, by their names; "": lines.
std::map<std::string, std::vector<json>> events_of(const std::string& stream) {
  std::map<std::string, std::vector<json>> events;
  for (std::size_t at = stream.find("\r\n\r\n") + 4; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    REQUIRE(end != std::string::npos);
    const std::string event = stream.substr(at, end - at);
    at = end + 2;
    if (event == ":") continue;
    const std::size_t data = event.find("data: ");
    REQUIRE(data != std::string::npos);
    const std::string name = data == 0 ? "" : event.substr(7, data - 8);
    events[name].push_back(json::parse(event.substr(data + 6)));
  }
  return events;
}

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

/// Trains by `command`, and reads the page's stream from its start to the end of training.
std::map<std::string, std::vector<json>> stream_of(const Words& command) {
  Shown shown(command);
  RawClient page(shown.port());
  page.send(Shown::request("/events"));
  const std::string stream = page.read_to_end();
  const ProcessResult result = shown.process().wait(kLimit);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(count_of(result.err, "live page: ") == 1);  // the chief's
  return events_of(stream);
}

/// What of `events` came from `source`.
std::vector<json> lines_from(const std::vector<json>& events, const std::string& source) {
  std::vector<json> lines;
  for (const json& event : events)
    if (event["source"] == source) lines.push_back(event["line"]);
  return lines;
}

Words under_tool(const Words& options, const Words& command) {
  return Words{kTool, "run"} + options + Words{"--"} + command;
}

}  // namespace

TEST_SUITE("status") {
  TEST_CASE("status: a page is sent every line that the run writes, its progress, and the end") {
    const TempDir dir;
    auto events = stream_of(shown_training(dir));
    const auto written = lines_of(dir.path() / "summaries.jsonl");
    CHECK(written.size() > 15);
    CHECK(lines_from(events[""], "train") == written);
    CHECK(lines_from(events[""], "run") == lines_of(dir.path() / "run.jsonl"));
    REQUIRE(!events["progress"].empty());  // how many depends on how often the page was written to
    CHECK(events["progress"].back()["activity"] == "ended");
    CHECK(events["progress"].back()["step"] == kSteps);
    CHECK(events["progress"].back()["total_steps"] == kSteps);
    CHECK(events["progress"].back()["examples"] == 20 * kSteps);
    CHECK(events["progress"].back()["losses"][0][0] == "loss");
    CHECK(events["end"].size() == 1);
  }

  TEST_CASE(
      "status: the same under troupe run, with evaluations, servers, and a loop of one's own") {
    const auto check = [](const Words& command, const TempDir& dir, const std::string& source) {
      CAPTURE(troupe::join(command, " "));
      auto events = stream_of(command);
      CHECK(lines_from(events[""], "train") == lines_of(dir.path() / "summaries.jsonl"));
      CHECK_FALSE(lines_from(events[""], source).empty());
      REQUIRE_FALSE(events["progress"].empty());
      CHECK(events["progress"].back()["step"] == kSteps);
      CHECK(events["end"].size() == 1);
      return events["progress"].back()["waiting"];
    };
    const TempDir group;
    const auto waiting =
        check(under_tool({"--workers", "2"}, shown_training(group)), group, "train");
    REQUIRE(waiting.size() == 2);
    CHECK(waiting[1][0] == "worker/1");
    CHECK(lines_of(group.path() / "run.jsonl").back()["waiting"].size() == 2);
    const TempDir evaluated;
    check(shown_training(evaluated) + Words{"--mode", "train-and-evaluate", "--save-every", "50",
                                            "--throttle-secs", "0", "--eval-steps", "2"},
          evaluated, "eval");
    const TempDir served;
    check(under_tool({"--workers", "2", "--ps", "1"},
                     shown_training(served) + Words{"--staleness-bound", "0"}),
          served, "train");
    const TempDir custom;
    check(shown_training(custom, Words{kBuild + "/examples/custom_loop"} + kFewDigits), custom,
          "train");
  }

  TEST_CASE("status: metrics while it trains, which promtool accepts") {
    const TempDir dir;
    Shown shown(shown_training(dir, kMnist, 100'000));
    std::string metrics;
    const auto value = [&](const std::string& name) {
      const std::size_t at = metrics.find("\n" + name + " ");
      return at == std::string::npos ? -1 : std::stod(metrics.substr(at + name.size() + 2));
    };
    CHECK(eventually([&] {
      const std::string answer = shown.ask("/metrics");
      metrics = answer.substr(answer.find("\r\n\r\n") + 4);
      return value("troupe_step") >= 50;
    }));
    shown.process().signal(SIGKILL);
    CHECK(value("troupe_steps_total") == value("troupe_step"));
    CHECK(value("troupe_examples_total") == 20 * value("troupe_step"));
    CHECK(value("troupe_last_step") == 100000);
    CHECK(value("troupe_loss{name=\"loss\"}") > 0);
    CHECK(value("troupe_workers") == 1);
    const std::string file = (dir / "metrics.txt").string();
    std::ofstream(file) << metrics;
    const ProcessResult checked =
        run_process({"/bin/sh", "-c", "promtool check metrics < " + file});
    if (checked.exit_code == 127) {
      MESSAGE("skipped: promtool is not installed (Debian: apt-get install prometheus)");
      return;
    }
    CHECK_MESSAGE(checked.exit_code == 0, checked.err);
    CHECK_MESSAGE(checked.err.empty(), checked.err);  // lint, too
  }

  TEST_CASE("status: in Chromium points come while it trains, and equal the JSON lines") {
    const TempDir dir;
    const ProcessResult result =
        run_process(Words{"python3", "-B", TROUPE_SOURCE_DIR "/tests/browser/check_live.py",
                          dir.path().string()} +
                        shown_training(dir, kMnist, 1'500),
                    {}, kLimit);
    if (result.exit_code == kSkipped) {
      MESSAGE(result.out);
      return;
    }
    INFO(result.err);
    INFO(result.out);
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, " points"));
  }

  TEST_CASE("status: a named address needs the token, which is printed once and kept nowhere") {
    const TempDir dir;
    Shown shown(shown_training(dir, kMnist, kSteps, "127.0.0.1:0"));
    const std::string query = shown.query();
    REQUIRE(query.size() == 7 + 32);
    CHECK(has(shown.ask("/metrics"), "HTTP/1.1 401"));
    CHECK(has(shown.ask("/metrics" + query), "HTTP/1.1 200"));
    RawClient page(shown.port());
    page.send(Shown::request("/events" + query));
    const std::string token = query.substr(7);
    const std::string stream = page.read_to_end();
    CHECK(has(stream, "event: end"));
    CHECK_FALSE(has(stream, token));
    const ProcessResult result = shown.process().wait(kLimit);
    CHECK(result.exit_code == 0);
    CHECK(count_of(result.err + result.out, token) == 1);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      CHECK_MESSAGE(!has(bytes, token), entry.path());
    }
  }

  TEST_CASE("status: a port that is taken, or a flag that lacks another, ends it before step 1") {
    const TempDir first;
    const TempDir dir;
    Shown shown(shown_training(first, kMnist, 100'000));
    for (const Words& words :
         {training(dir) + Words{"--status", text(shown.port())},
          under_tool({"--workers", "2"}, training(dir) + Words{"--status", text(shown.port())})}) {
      const ProcessResult taken = run_process(words, {}, kLimit);
      CHECK(taken.exit_code == 3);
      CHECK(has(taken.err, text("error[environment]: the live page cannot listen on 127.0.0.1:",
                                shown.port(), ": the port is taken. Fix: ")));
      CHECK_FALSE(std::filesystem::exists(dir / "model.ckpt-0"));
    }
    const ProcessResult unsaved = run_process(kMnist + Words{"--status", "0"}, {}, kLimit);
    CHECK(unsaved.exit_code == 2);
    CHECK(has(unsaved.err, "--status is given without --model-dir. Fix: "));
  }
}

}  // namespace status_test
