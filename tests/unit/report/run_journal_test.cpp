#include "troupe/report/run_journal.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"
#include "troupe/report/page/run_directory.h"

namespace run_journal_test {

using namespace troupe::testing;  // NOLINT: a test
using troupe::RunJournal;

namespace {

double now() { return kNow; }

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("run_journal: a line per event, fields in their order") {
    const TempDir folder;
    RunJournal journal(folder.path(), now);
    CHECK_FALSE(std::filesystem::exists(folder.path() / RunJournal::kFileName));
    journal.write("start", {{"step", 3}, {"tasks", {"chief/0", "worker/1"}}});
    journal.write("end", {{"step", 9}, {"reason", "max_steps 9 is reached\n"}, {"exit_code", 0}});
    journal.write("end", {});
    CHECK(content_of(folder.path() / "run.jsonl") ==
          "{\"event\":\"start\",\"time\":1700000000.5,\"step\":3,\"tasks\":[\"chief/0\",\"worker/"
          "1\"]}\n"
          "{\"event\":\"end\",\"time\":1700000000.5,\"step\":9,\"reason\":\"max_steps 9 is "
          "reached\\n\","
          "\"exit_code\":0}\n"
          "{\"event\":\"end\",\"time\":1700000000.5}\n");
  }

  TEST_CASE("run_journal: a resumed run appends, after half a line of a killed one too") {
    const TempDir folder;
    RunJournal(folder.path(), now).write("start", {{"step", 0}});
    std::ofstream(folder.path() / "run.jsonl", std::ios::app) << "{\"event\":\"sa";
    RunJournal(folder.path(), now).write("start", {{"step", 5}});
    CHECK(content_of(folder.path() / "run.jsonl") ==
          "{\"event\":\"start\",\"time\":1700000000.5,\"step\":0}\n"
          "{\"event\":\"start\",\"time\":1700000000.5,\"step\":5}\n");
  }

  TEST_CASE("run_journal: an event that is told again is there once, whatever else is said of it") {
    const TempDir folder;
    RunJournal(folder.path(), now).write("end", {{"step", 9}, {"exit_code", 0}, {"waiting", 1}});
    RunJournal next(folder.path(), now);
    next.write("end", {{"step", 9}, {"exit_code", 0}}, /*again=*/true);
    next.write("end", {{"step", 10}, {"exit_code", 0}}, /*again=*/true);
    next.write("save", {{"step", 10}}, /*again=*/true);
    next.write("save", {{"step", 10}}, /*again=*/false);
    const std::string content = content_of(folder.path() / "run.jsonl");
    CHECK(std::count(content.begin(), content.end(), '\n') == 4);
  }

  TEST_CASE(
      "run_journal: the end of a run that a signal stopped is not the end of the next start") {
    const TempDir folder;
    RunJournal(folder.path(), now).write("end", {{"step", 9}, {"exit_code", 143}});
    CHECK_FALSE(RunJournal::has_end(folder.path(), 9));
    RunJournal next(folder.path(), now);
    next.write("end", {{"step", 9}, {"exit_code", 0}}, /*again=*/true);
    CHECK(RunJournal::has_end(folder.path(), 9));
    CHECK_FALSE(RunJournal::has_end(folder.path(), 10));
  }

  TEST_CASE("run_journal: bytes that are not UTF-8 do not stop it") {
    const TempDir folder;
    RunJournal(folder.path(), now).write("end", {{"reason", "\xff!"}});
    CHECK(content_of(folder.path() / "run.jsonl") ==
          "{\"event\":\"end\",\"time\":1700000000.5,\"reason\":\"\xEF\xBF\xBD!\"}\n");
  }

  TEST_CASE("run_journal: a link in its place is not followed") {
    const TempDir folder;
    std::filesystem::create_symlink(folder.path() / "elsewhere", folder.path() / "run.jsonl");
    RunJournal journal(folder.path(), now);
    CHECK_THROWS_WITH_AS(journal.write("start", {}), doctest::Contains("symbolic link"),
                         troupe::EnvironmentError);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
  }

  TEST_CASE("run_journal: events of several threads are whole lines") {
    const TempDir folder;
    RunJournal journal(folder.path(), now);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) journal.write("save", {{"step", i}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(troupe::RunDirectory(folder.path()).read_on().size() == 400);
  }
}

}  // namespace run_journal_test
