// What the options' own actions tell on a worker that leads later.
#include "troupe/train/callback_list.h"

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/train/loop_runs.h"
#include "troupe/report/summary_writer.h"
#include "troupe/train/leadership.h"
#include "troupe/train/step_boundary.h"

namespace callback_list_test {

using namespace troupe::testing;  // NOLINT
using troupe::Outbox;
using troupe::SummaryWriter;
using troupe::detail::CallbackList;

namespace {

/// Lines of summaries.jsonl that have this text.
std::size_t count_of(const TempDir& dir, const std::string& text) {
  std::ifstream file(dir / "summaries.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.find(text) != std::string::npos;
  return count;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("callback list: what a lost leader wrote of the first step is not discarded") {
    for (const bool is_first_run : {true, false}) {
      CAPTURE(is_first_run);
      const TempDir dir;
      if (!is_first_run) SummaryWriter(dir.path().string()).write(1, {{"loss", 7.0}});
      Program program(TinyHooks(10), loop_options(dir.path()));
      program.options.save_summary_steps = 1;
      Outbox outbox(Outbox::Role::follower);
      CallbackList list(*program.strategy, program.options, outbox, {});
      troupe::detail::Leadership leadership(*program.strategy, outbox, {});
      troupe::detail::Admission admission(*program.strategy, program.state);
      troupe::detail::StepBoundary run(*program.strategy, program.state, program.options, list,
                                       leadership, admission);
      list.complete({0, 10, "epoch"}, troupe::steady_clock(), /*has_joined=*/false);
      list.ready(run);
      list.before_step(run);
      list.after_step({1, 0, 4, {{"loss", 0.5}}}, run);
      {
        SummaryWriter lost(dir.path().string());
        if (!is_first_run) lost.begin_session(0, /*again=*/false);
        lost.write(1, {{"loss", 0.5}});
      }
      outbox.lead();
      CHECK(count_of(dir, "session_start") == (is_first_run ? 0 : 1));
      CHECK(count_of(dir, "\"loss\":0.5") == 1);
    }
  }
}

}  // namespace callback_list_test
