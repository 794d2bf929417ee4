#include "troupe/train/callbacks/summary_saver.h"

#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/report/summary_reader.h"
#include "troupe/report/summary_writer.h"

using troupe::Every;
using troupe::is_summary_step;
using troupe::Scalar;
using troupe::Seconds;
using troupe::SummarySaver;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

// What was written, and the steps for which losses were wanted.
struct Written {
  std::vector<std::int64_t> steps, wanted;
  std::vector<Scalar> last;

  SummarySaver::Sink sink() {
    return [this](std::int64_t step, const std::vector<Scalar>& scalars) {
      steps.push_back(step);
      last = scalars;
    };
  }
  // As the training loop does: losses are there where somebody wanted them.
  void take(SummarySaver& saver, FakeRun& run, int count) {
    const std::int64_t first = run.step() + 1;
    for (int i = 0; i < count; ++i) {
      const std::int64_t step = run.step() + 1;
      const bool wants = saver.wants_losses(step, step == first);
      if (wants) wanted.push_back(step);
      run.take_step(saver, wants ? troupe::LossValues{{"loss", 0.25}} : troupe::LossValues{});
    }
  }
};

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("summary_saver: every 8 of 30 steps writes 1, 9, 17 and 25") {
    const FakeClock clock;
    FakeRun run;
    Written written;
    SummarySaver saver(Every::n_steps(8), written.sink(), clock);
    saver.begin();
    saver.ready(run);
    written.take(saver, run, 30);
    CHECK(written.steps == std::vector<std::int64_t>{1, 9, 17, 25});
    CHECK(written.wanted == written.steps);
    REQUIRE(written.last.size() == 1);
    CHECK(written.last[0].tag == "loss");
    CHECK(written.last[0].value == 0.25);
  }

  TEST_CASE("summary_saver: a resumed run writes at the steps of an uninterrupted one") {
    const FakeClock clock;
    FakeRun run(100);
    Written written;
    SummarySaver saver(Every::n_steps(8), written.sink(), clock);
    for (int i = 0; i < 2; ++i) {
      saver.begin();
      saver.ready(run);
      written.take(saver, run, 10);
    }
    CHECK(written.steps == std::vector<std::int64_t>{105, 113});
    CHECK(written.wanted == written.steps);
  }

  TEST_CASE("summary_saver: other workers want the same losses and write nothing") {
    const FakeClock clock;
    FakeRun run;
    run.become_worker();
    Written written;
    int asked = 0;
    SummarySaver saver(Every::n_steps(8), written.sink(), clock, [&] {
      ++asked;
      return std::vector<Scalar>{{"extra", 1}};
    });
    CHECK_FALSE(saver.chief_only());
    saver.ready(run);
    written.take(saver, run, 30);
    CHECK(written.wanted == std::vector<std::int64_t>{1, 9, 17, 25});
    CHECK(written.steps.empty());
    CHECK(asked == 0);
  }

  TEST_CASE("summary_saver: by seconds the losses of every step are wanted") {
    FakeClock clock;
    FakeRun run;
    Written written;
    SummarySaver saver(Every::n_seconds(10), written.sink(), clock);
    saver.begin();
    saver.ready(run);
    for (int i = 0; i < 6; ++i) {
      written.take(saver, run, 1);
      if (i < 5) clock.advance(Seconds(4));
    }
    CHECK(written.wanted.size() == 6);
    CHECK(saver.wants_losses(7, false));
    CHECK(written.steps == std::vector<std::int64_t>{1, 4});
    saver.begin();  // the period starts anew with the next run
    saver.ready(run);
    written.take(saver, run, 1);
    CHECK(written.steps == std::vector<std::int64_t>{1, 4, 7});
  }

  TEST_CASE("summary_saver: an epoch's report and validation are written for its last step") {
    const FakeClock clock;
    troupe::Report train{troupe::Phase::train, 8, {{"loss", 0.5}}, {}, {{"accuracy", 0.75, {}}}, 1};
    troupe::Report validation{troupe::Phase::validation, 4, {{"loss", 0.25}}, {},
                              {{"accuracy", 1, {}}},     1};
    for (const bool chief : {true, false}) {
      FakeRun run(40);
      if (!chief) run.become_worker();
      Written written;
      SummarySaver saver(Every::n_steps(8), written.sink(), clock);
      saver.begin();
      saver.ready(run);
      saver.after_epoch(0, train, nullptr);  // a run that resumed at the end of its epoch
      written.take(saver, run, 2);
      saver.after_epoch(1, train, &validation);
      if (!chief) {
        CHECK(written.steps.empty());
        continue;
      }
      CHECK(written.steps == std::vector<std::int64_t>{40, 41, 42});
      REQUIRE(written.last.size() == 4);
      CHECK(written.last[0].tag == "train/loss");
      CHECK(written.last[0].value == 0.5);
      CHECK(written.last[1].tag == "train/accuracy");
      CHECK(written.last[2].tag == "validation/loss");
      CHECK(written.last[3].tag == "validation/accuracy");
      CHECK(written.last[3].value == 1.0);
    }
  }

  TEST_CASE("summary_saver: the last step is written whatever the period") {
    const FakeClock clock;
    FakeRun run;
    Written written;
    SummarySaver saver(Every::n_steps(8), written.sink(), clock, nullptr, 14);
    saver.begin();
    saver.ready(run);
    written.take(saver, run, 14);
    CHECK(written.steps == std::vector<std::int64_t>{1, 9, 14});
    CHECK(written.wanted == written.steps);
  }

  TEST_CASE("summary_saver: extra scalars follow the losses, and without any there is no summary") {
    const FakeClock clock;
    FakeRun run;
    Written written;
    SummarySaver saver(Every::n_steps(1), written.sink(), clock, [] {
      return std::vector<Scalar>{{"learning_rate", 0.03}};
    });
    saver.ready(run);
    run.take_step(saver, {{"loss", 1.0}});
    REQUIRE(written.last.size() == 2);
    CHECK(written.last[1].tag == "learning_rate");
    SummarySaver bare(Every::n_steps(1), written.sink(), clock);
    bare.ready(run);
    run.take_step(bare);
    CHECK(written.steps == std::vector<std::int64_t>{1});
  }

  TEST_CASE("summary_saver: what goes to a writer is what a reader finds") {
    const troupe::testing::TempDir folder;
    const FakeClock clock;
    FakeRun run;
    Written written;
    troupe::SummaryWriter writer(folder.path());
    SummarySaver saver(Every::n_steps(2), writer, clock);
    saver.ready(run);
    written.take(saver, run, 3);
    const auto history = troupe::read_scalars(folder.path());
    REQUIRE(history.size() == 2);
    CHECK(history.at(1).at("loss") == 0.25);
    CHECK(history.at(3).at("loss") == 0.25);
  }

  TEST_CASE("summary_saver: a summary step is the first and every n after it") {
    CHECK(is_summary_step(1, 100));
    CHECK_FALSE(is_summary_step(100, 100));
    CHECK(is_summary_step(101, 100));
    CHECK_FALSE(is_summary_step(157, 100));
    CHECK(is_summary_step(5, 1));
    CHECK_FALSE(is_summary_step(1, 0));
    CHECK(is_summary_step(103, 100, 3));  // 101 was another worker's
    CHECK_FALSE(is_summary_step(103, 100, 2));
  }

  TEST_CASE("summary_saver: a bad period is refused under its name") {
    const FakeClock clock;
    Written written;
    CHECK_THROWS_WITH_AS(SummarySaver(Every::n_steps(0), written.sink(), clock),
                         doctest::Contains("SummarySaver"), troupe::ConfigError);
  }
}
