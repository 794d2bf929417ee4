// troupe run --min-workers: what a lost worker means for the others, for the launcher, and for
// itself.
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/launcher/nodes/launch_rendezvous.h"

namespace launch_elastic_test {

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

struct Job {
  std::string faults;
  std::string until = "3";
  std::string steps = "100";
};

std::vector<std::string> elastic(std::vector<std::string> options, const TempDir& folder) {
  options.insert(options.begin(), {kTool, "run"});
  options.insert(options.end(),
                 {"--", TROUPE_ELASTIC_WORKER, "--model-dir", folder.path().string()});
  return options;
}

ProcessOptions variables(const Job& job, const TempDir& folder, const Marker& marker) {
  ProcessOptions options = marker.options();
  options.set["ELASTIC_FAULTS"] = job.faults;
  options.set["ELASTIC_FOLDER"] = folder.path().string();
  options.set["ELASTIC_STEPS"] = job.steps;
  options.set["ELASTIC_UNTIL"] = job.until;
  return options;
}

/// A run of its own, which leaves nothing behind.
ProcessResult run_elastic(std::vector<std::string> options, const Job& job, int exit_code = 0) {
  const TempDir folder;
  const Marker marker;
  ProcessResult result =
      run_process(elastic(std::move(options), folder), variables(job, folder, marker));
  CHECK_MESSAGE(result.exit_code == exit_code, result.err);
  CHECK(marker.alive() == 0);
  return result;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("elastic: a killed worker, the chief or not, is replaced while the others go on") {
    for (const std::string lost : {"1", "0"}) {
      CAPTURE(lost);
      const ProcessResult result =
          run_elastic({"--workers", "3", "--min-workers", "2", "--max-restarts", "4"},
                      {"kill " + lost + " 20"});
      CHECK(has(result.err, "worker/" + lost + " was killed by signal 9 (Killed) after "));
      CHECK(has(result.err, "; it is started again (1 of 4).\n"));
      CHECK(has(result.err, "troupe: round 2: 2 workers continue after step 19; training stood "));
      CHECK(has(result.err, "troupe: round 3: 3 workers, 1 of them new, continue after step "));
      CHECK(has(result.out, "[worker/2] round 2 as rank 1 of 2\n"));
      CHECK(has(result.out, "[worker/" + lost + "] round 3 as rank 2 of 3\n"));
      const long long step = ended_after(result.out, "worker/2");
      CHECK(step >= 100);
      for (const char* worker : {"worker/0", "worker/1"})
        CHECK(ended_after(result.out, worker) == step);
    }
  }

  TEST_CASE("elastic: what a worker said last counts before its end") {
    boost::asio::io_context io;
    troupe::LaunchConsole console(io, [](troupe::LaunchConsole::Written) {});
    troupe::StepLosses losses;
    troupe::Round first{1, 5, 0, {{"worker/0", {}, false}, {"worker/1", {}, false}}};
    std::string said;
    troupe::LaunchRendezvous rounds(
        io, console,
        std::make_unique<troupe::Rendezvous>(troupe::RendezvousTerms{}, first, losses,
                                             [](std::uint64_t former) { return former + 1; }),
        2,
        {[&](int index) { said += "kill " + std::to_string(index) + " "; },
         [&] { said += "start "; },
         [&](const troupe::RoundVerdict&, int last) { said += "end " + std::to_string(last); }});
    const troupe::UniqueFd ends[] = {rounds.open_line(0, {"h", 1}, false),
                                     rounds.open_line(1, {"h", 2}, false)};
    const auto killed = [](const char* name) {
      return troupe::EndedProcess{name, {128 + SIGKILL, SIGKILL}};
    };
    const auto tell = [&](int index, const std::string& bytes) {
      REQUIRE(write(ends[index].get(), bytes.data(), bytes.size()) > 0);
    };
    tell(0, to_json(troupe::WorkerMessage(troupe::Started{})));
    CHECK(rounds.ended(0, killed("worker/0")));
    CHECK(said == "start ");
    tell(1, "what is no message");
    CHECK_FALSE(rounds.ended(1, killed("worker/1")));  // it ends the group
    rounds.carry_out();
    CHECK(said == "start kill 1 end 1");
  }

  TEST_CASE("elastic: two lost at once, and one more in the round that follows") {
    const ProcessResult result =
        run_elastic({"--workers", "4", "--min-workers", "1", "--max-restarts", "4"},
                    {"kill 0 20;kill 2 20;kill 1 21", "4"});
    for (const char* worker : {"worker/0", "worker/1", "worker/2", "worker/3"})
      CHECK(ended_after(result.out, worker) >= 100);
    CHECK(has(result.err, "; it is started again (3 of 4).\n"));
  }

  TEST_CASE("elastic: a stopped worker is killed before the others go on") {
    const ProcessResult result =
        run_elastic({"--workers", "3", "--min-workers", "2", "--max-restarts", "1"}, {"stop 2 20"});
    CHECK(has(result.err, "worker/2 gave no sign of life for 0.5 s; it is killed.\n"));
    CHECK(ended_after(result.out, "worker/2") >= 100);
  }

  TEST_CASE("elastic: one that waits, or still starts, when training is over is no failure") {
    for (const std::string when : {"waiting", "starting"}) {
      CAPTURE(when);
      const ProcessResult result = run_elastic(
          {"--workers", "3", "--min-workers", "2", "--max-restarts", "1"}, {"kill 1 20", when});
      CHECK(has(result.out, "[worker/1] training is over\n") == (when == "waiting"));
      CHECK(count_of(result.err, "worker/1 was killed") == 2);  // at once, and in the report
      CHECK_FALSE(has(result.err, "exited with code"));
    }
  }

  TEST_CASE("elastic: without restarts the others go on alone, and too few end with 138") {
    const ProcessResult alone =
        run_elastic({"--workers", "2", "--min-workers", "1"}, {"kill 0 20", "1"});
    CHECK(has(alone.err, "; training continues without it.\n"));
    CHECK(ended_after(alone.out, "worker/1") == 100);

    const ProcessResult few = run_elastic(
        {"--workers", "2", "--min-workers", "2", "--regroup-secs", "1"}, {"kill 0 20"}, 138);
    CHECK(has(few.err,
              "troupe: fewer than 2 workers (--min-workers) were left for 1 s "
              "(--regroup-secs).\n"));
    CHECK(has(few.out, "[worker/1] saved step 20 with 210\n"));
  }

  TEST_CASE("elastic: when all that hold the state are lost, the whole group starts again") {
    const ProcessResult result =
        run_elastic({"--workers", "2", "--min-workers", "1", "--max-restarts", "3"},
                    {"kill 0 20;kill 1 20", "2"});
    CHECK(has(result.err, "troupe: no worker is left that holds the state.\n"));
    CHECK(has(result.err, "; restart 1 of 3 in 1.0 s, from the newest checkpoint.\n"));
    CHECK(ended_after(result.out, "worker/0") == 100);
  }

  TEST_CASE("elastic: a chief lost after the training starts the group again, an evaluator too") {
    const TempDir folder;
    const Marker marker;
    std::vector<std::string> command = elastic(
        {"--workers", "2", "--min-workers", "1", "--max-restarts", "3", "--evaluator"}, folder);
    command.insert(command.end(), {"--mode", "train-and-evaluate"});
    const ProcessResult result =
        run_process(command, variables({"kill 0 101", "2"}, folder, marker));
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK(marker.alive() == 0);
    CHECK(has(result.err, ", and what follows the training is not done"));
    CHECK(has(result.err, "; restart 1 of 3 in 1.0 s, from the newest checkpoint.\n"));
    CHECK(has(result.out, "[evaluator/0] evaluator: stopped\n"));
    CHECK(has(result.out, "[evaluator/0] evaluator: finished\n"));
  }

  TEST_CASE("elastic: a step that kills whoever computes it ends the run for good") {
    const ProcessResult result = run_elastic(
        {"--workers", "4", "--min-workers", "1", "--max-restarts", "9"}, {"poison 50"}, 1);
    CHECK(has(result.err,
              "step 50 was lost 3 times in a row: worker/3 (number 50); worker/2 (number 50); "
              "worker/1 (number 50)"));
    CHECK(has(result.err, "; not restarted: something has to be fixed first.\n"));

    // With the last of two it starts again, and remembers.
    const ProcessResult again = run_elastic(
        {"--workers", "2", "--min-workers", "1", "--max-restarts", "9"}, {"poison 50"}, 1);
    CHECK(count_of(again.err, ", from the newest checkpoint.\n") == 1);
    CHECK(has(again.err, "step 50 was lost 3 times in a row: "));
  }

  TEST_CASE("elastic: a failure of its own ends all, and so does a loss before the first step") {
    const std::vector<std::string> options = {"--workers", "3", "--min-workers", "1"};
    const ProcessResult failed = run_elastic(options, {"exit 1 20"}, 7);
    CHECK(has(failed.err, "worker/1 exited with code 7 after "));
    const ProcessResult early = run_elastic(options, {"kill 1 1"}, 137);
    CHECK_FALSE(has(early.err, "round 2"));
  }

  TEST_CASE("elastic: a signal to the launcher saves and stops, and ends who waits to join") {
    for (const bool admitted : {true, false}) {
      CAPTURE(admitted);
      const TempDir folder;
      const Marker marker;
      Process process(
          elastic({"--workers", "3", "--min-workers", "2", "--max-restarts", "3"}, folder),
          variables({"kill 1 20", admitted ? "9" : "waiting", "1000000000"}, folder, marker));
      REQUIRE(process.wait_for_output(admitted ? "[worker/1] round 3 as " : "[worker/1] knocks"));
      process.signal(SIGTERM);
      const ProcessResult result = process.wait();
      CAPTURE(result.err);
      CHECK(result.exit_code == 143);
      CHECK(count_of(result.out, "] saved step ") == (admitted ? 3 : 2));
      CHECK_FALSE(has(result.err, "did not stop in time"));
      CHECK(marker.alive() == 0);
    }
  }

  TEST_CASE("elastic: a signal to the launcher lets one save that waits for others") {
    const TempDir folder;
    const Marker marker;
    Process process(elastic({"--workers", "2", "--min-workers", "2", "--grace", "5"}, folder),
                    variables({"kill 0 20"}, folder, marker));
    REQUIRE(process.wait_for_output("; training continues without it.\n"));
    process.signal(SIGTERM);
    const ProcessResult result = process.wait();
    CAPTURE(result.err);
    CHECK(result.exit_code == 143);
    const std::string saved = "[worker/1] saved step ";
    const std::size_t at = result.out.find(saved);
    REQUIRE(at != std::string::npos);
    const long long step = std::stoll(result.out.substr(at + saved.size()));
    CHECK(step >= 20);
    CHECK(has(result.out, saved + std::to_string(step) + " with " +
                              std::to_string(step * (step + 1) / 2) + "\n"));
    CHECK_FALSE(has(result.err, "did not stop in time"));
  }
}

}  // namespace launch_elastic_test
