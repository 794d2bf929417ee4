// What a run writes of itself, and `troupe report`, through the real command line; the page in a
// real Chromium.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/core/text.h"

namespace report_test {

using namespace troupe::testing;  // NOLINT: a test
using nlohmann::json;
using troupe::text;

namespace {

constexpr int kSkipped = 77;

/// 20 steps an epoch.
const Words kSmall = kMnist + Words{"--train-examples", "400", "--batch-size", "20",
                                    "--threads",        "1",   "--no-progress"};

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    json read = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (read.is_object()) lines.push_back(std::move(read));
  }
  return lines;
}

std::vector<json> events_of(const TempDir& run, const std::string& event) {
  std::vector<json> events;
  for (json& line : lines_of(run.path() / "run.jsonl"))
    if (line["event"] == event) events.push_back(std::move(line));
  return events;
}

std::vector<double> values_of(const TempDir& run, const std::string& tag) {
  std::vector<double> values;
  for (const json& line : lines_of(run.path() / "summaries.jsonl"))
    if (line.contains(tag)) values.push_back(line[tag]);
  return values;
}

/// Three workers, of which the last is killed after an epoch.
void train_and_kill(const Words& command) {
  const std::vector<std::uint16_t> ports = {free_port(), free_port(), free_port()};
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 3; ++i)
    workers.push_back(std::make_unique<Process>(command, tf_config(ports, i)));
  REQUIRE(workers[0]->wait_for_output("epoch 1: ", kLimit));
  workers[2]->signal(SIGKILL);
  CHECK(workers[0]->wait(kLimit).exit_code == 138);
}

/// Opens a page in Chromium; `expected`: part of what the script prints.
void check_in_browser(const Words& arguments, const std::string& expected,
                      const char* script = "check_report.py") {
  if (run_process({"python3", "-c", ""}).exit_code != 0) {
    MESSAGE("skipped: python3 does not run here");
    return;
  }
  const ProcessResult result = run_process(
      Words{"python3", "-B", text(TROUPE_SOURCE_DIR "/tests/browser/", script)} + arguments, {},
      kLimit);
  if (result.exit_code == kSkipped) {
    MESSAGE(result.out);
    return;
  }
  INFO(result.err);
  INFO(result.out);
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, expected));
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("report: a run of three workers that lost one and was resumed, and two runs") {
    const TempDir run;
    const TempDir other;
    const Words intervals = {"--save-summary-steps", "3", "--save-every", "25"};
    const Words first = kSmall + intervals + Words{"--model-dir", run.path().string()};
    train_and_kill(first + Words{"--epochs", "1000"});
    const auto lost = events_of(run, "lost");
    REQUIRE(lost.size() == 1);
    CHECK(lost[0]["task"] == "worker/2");
    CHECK(lost[0]["step"] >= 20);
    const std::string reason = lost[0]["reason"];
    CAPTURE(reason);
    CHECK((has(reason, "closed") || has(reason, "reset")));  // a reset: with bytes it had not read
    REQUIRE(events_of(run, "end").size() == 1);
    CHECK(events_of(run, "end")[0]["exit_code"] == 138);
    const std::string last = std::to_string(lost[0]["step"].get<int>() + 30);
    CHECK(run_on(3, first + Words{"--max-steps", last}).exit_code == 0);
    CHECK(events_of(run, "start").size() == 2);
    CHECK(events_of(run, "end").back()["exit_code"] == 0);

    const ProcessResult one = run_process({kTool, "report", run.path().string()});
    CHECK(one.exit_code == 0);
    CHECK(one.out == (run.path() / "report.html").string() + "\n");
    check_in_browser({(run.path() / "report.html").string(), run.path().string()},
                     "loss, validation of run 0: ");

    CHECK(run_on(1, kSmall + intervals +
                        Words{"--model-dir", other.path().string(), "--max-steps", "40",
                              "--learning-rate", "0.01"})
              .exit_code == 0);
    const std::string page = (other.path() / "two.html").string();
    const ProcessResult two = run_process(
        {kTool, "report", run.path().string(), other.path().string() + "/", "-o", page});
    CHECK(two.exit_code == 0);
    check_in_browser({page, run.path().string(), other.path().string()},
                     "'learning-rate', 'max-steps', 'model-dir'");
  }

  TEST_CASE("report: a directory of somebody else's making is shown, and runs nothing") {
    const TempDir run;
    const std::string evil =
        "</script><script>window.pwned=1</script><img src=x onerror=\"window.pwned=1\">'\"&lt;";
    const json parameters = json::array({{{"name", evil}, {"shape", evil}, {"count", evil}}});
    const json settings =
        json::array({{{"name", evil}, {"value", evil}, {"source", evil}}, 7, {{"value", {evil}}}});
    std::ofstream journal(run.path() / "run.jsonl");
    journal
        << json{{"event", "start"},
                {"time", 1000},
                {"step", 0},
                {"program", evil},
                {"tasks", {evil}},
                {"settings", settings},
                {"machine", {{evil, evil}}},
                {"parameters", parameters}}
        << "\n"
        << json{{"event", "save"}, {"time", 1001}, {"step", 1}, {"checkpoint", evil}} << "\n"
        << json{{"event", "lost"}, {"time", 1e300}, {"step", 2}, {"task", evil}, {"reason", evil}}
        << "\n"
        << R"({"event":"end","time":1002,"step":{"a":1},"reason":["x"],"exit_code":"y"})"
        << "\n"
        << R"({"event":"start","time":"x"})"
        << "\n[]\n{\n";
    journal.close();
    std::ofstream summaries(run.path() / "summaries.jsonl");
    for (int step = 1; step < 4; ++step)
      summaries << json{{"step", step},   {"time", 1000.5}, {"loss", 1.0 / step},        {evil, 2},
                        {"__proto__", 3}, {"text", evil},   {"huge", 1e308 * (step - 2)}}
                << "\n";
    summaries.close();
    const std::string page = (run.path() / "report.html").string();
    REQUIRE(run_process({kTool, "report", run.path().string()}).exit_code == 0);
    check_in_browser({"--foreign", page}, "charts: 4");
  }

  TEST_CASE("report: thirty runs in a table, in any order, and six of them in the charts") {
    check_in_browser({kTool}, "30 runs: table, order and choice are as written", "check_runs.py");
  }

  TEST_CASE("report: what it cannot do it says") {
    const TempDir empty;
    const auto refused = [](const Words& arguments, const std::string& part) {
      const ProcessResult result = run_process(Words{kTool, "report"} + arguments);
      CHECK(result.exit_code == 2);
      INFO(result.err);
      CHECK(has(result.err, "troupe: error[config]: "));
      CHECK(has(result.err, part));
    };
    const std::string folder = empty.path().string();
    refused({}, "takes a directory, or several");
    refused({"a", "b", "c"}, "none of these directories tells of a run");
    refused({folder + "/none"}, "is not a directory");
    refused({folder}, "nothing in '" + folder + "' tells of a run");
    refused({folder, "-o"}, "--output needs a value");
    refused({folder, "--open"}, "unknown flag --open");
    std::ofstream(empty.path() / "summaries.jsonl") << "\n";
    const ProcessResult result =
        run_process({kTool, "report", folder, "-o", folder + "/missing/report.html"});
    CHECK(result.exit_code == 3);
    CHECK(has(result.err, "cannot be written"));
  }

  TEST_CASE(
      "summaries: gradient norms and histograms are there, and training's bits are the same") {
    const TempDir plain;
    const TempDir clipped;
    const Words command = kSmall + Words{"--max-steps", "12", "--json-summary"};
    const auto hash = [&](int workers, const Words& more) {
      return summary(run_on(workers, command + more))["parameter_hash"].get<std::string>();
    };
    const Words summarised = {"--save-summary-steps", "1", "--save-histogram-steps", "5"};
    const std::string expected = hash(1, {});
    CHECK(hash(1, summarised + Words{"--model-dir", plain.path().string()}) == expected);
    CHECK(hash(1, summarised + Words{"--model-dir", clipped.path().string(), "--clip-norm",
                                     "1e9"}) == expected);
    const auto norms = values_of(plain, "gradient_norm");
    CHECK(norms.size() == 12);
    CHECK(norms == values_of(clipped, "gradient_norm"));
    CHECK(values_of(plain, "learning_rate") == std::vector<double>(12, 0.03));
    CHECK(values_of(plain, "examples/sec").size() == 11);
    CHECK(values_of(plain, "validation/loss").size() == 1);
    std::vector<std::int64_t> steps;
    for (const json& line : lines_of(plain.path() / "histograms.jsonl")) {
      CHECK(line["edges"].size() == line["counts"].size() + 1);
      if (steps.empty() || steps.back() != line["step"]) steps.push_back(line["step"]);
    }
    CHECK(steps == std::vector<std::int64_t>{1, 6, 11, 12});
    const TempDir together;
    CHECK(hash(2, {}) == hash(2, summarised + Words{"--model-dir", together.path().string()}));
    const auto theirs = values_of(together, "gradient_norm");
    REQUIRE(theirs.size() == norms.size());
    for (std::size_t i = 0; i < norms.size(); ++i)
      CHECK(theirs[i] == doctest::Approx(norms[i]).epsilon(1e-4));
  }

  TEST_CASE("summaries: where each worker steps its part, gradients are whole when they are due") {
    const Words command = kSmall + Words{"--max-steps", "12", "--json-summary"} +
                          Words{"--save-summary-steps", "5", "--save-histogram-steps", "4"};
    const TempDir whole;
    const TempDir sharded;
    const auto in = [](const TempDir& dir) { return Words{"--model-dir", dir.path().string()}; };
    const auto expected = summary(run_on(2, command + in(whole)))["parameter_hash"];
    CHECK(summary(run_on(2, command + in(sharded) +
                                Words{"--shard-optimizer"}))["parameter_hash"] == expected);
    CHECK(values_of(whole, "gradient_norm").size() == 4);  // steps 1, 6, 11 and 12
    CHECK(values_of(sharded, "gradient_norm") == values_of(whole, "gradient_norm"));
    const auto histograms_of = [](const TempDir& dir) {
      auto lines = lines_of(dir.path() / "histograms.jsonl");
      for (json& line : lines) line.erase("time");
      return lines;
    };
    CHECK(histograms_of(whole).size() > 4);
    CHECK((histograms_of(sharded) == histograms_of(whole)));
  }

  TEST_CASE("journal: says what was started, with which settings, and how it ended") {
    const TempDir run;
    const Words command = kSmall + Words{"--model-dir", run.path().string()};
    CHECK(run_on(1, command + Words{"--max-steps", "4"}).exit_code == 0);
    const auto lines = lines_of(run.path() / "run.jsonl");
    REQUIRE(lines.size() == 4);
    const json& start = lines[0];
    CHECK(start["event"] == "start");
    CHECK(start["program"] == "mnist");
    CHECK(start["mode"] == "train");
    CHECK(start["tasks"] == json{"worker/0"});
    CHECK(start["total_steps"] == 4);
    CHECK(start["machine"]["memory_bytes"] > 0);
    CHECK(start["parameters"][0]["trained"] == true);
    const auto setting = [&](const std::string& name) {
      for (const json& one : start["settings"])
        if (one["name"] == name)
          return one["value"].get<std::string>() + " " + one["source"].get<std::string>();
      return std::string("missing");
    };
    CHECK(setting("batch-size") == "20 --batch-size");
    CHECK(setting("momentum") == "0.9 default");
    CHECK(lines[1]["checkpoint"] == "model.ckpt-0");
    CHECK(lines[2]["step"] == 4);
    CHECK(lines[3]["reason"] == "max_steps 4 is reached");
    CHECK(lines[3]["exit_code"] == 0);

    Process stopped(command + Words{"--epochs", "1000"});
    REQUIRE(stopped.wait_for_output("epoch 1: ", kLimit));
    stopped.signal(SIGTERM);
    CHECK(stopped.wait(kLimit).exit_code == 143);
    CHECK(events_of(run, "start").back()["step"] == 4);
    CHECK(events_of(run, "end").back()["exit_code"] == 143);
    CHECK(has(events_of(run, "end").back()["reason"], "SIGTERM: all workers stopped"));

    const TempDir failing;
    CHECK(
        run_on(1, kSmall + Words{"--model-dir", failing.path().string(), "--learning-rate", "1e30"})
            .exit_code == 1);
    const auto ends = events_of(failing, "end");
    REQUIRE(ends.size() == 1);
    CHECK(has(ends[0]["reason"], "not finite"));
    CHECK(ends[0]["exit_code"] == 1);
  }
}

}  // namespace report_test
