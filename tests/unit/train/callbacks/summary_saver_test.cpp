#include "troupe/train/callbacks/summary_saver.h"

#include <vector>

#include "tests/support/fake_run.h"
#include "tests/support/test_prelude.h"

using troupe::is_summary_step;
using troupe::Scalar;
using troupe::SummarySaver;
using troupe::testing::FakeRun;

namespace {

struct Written {
  std::vector<std::int64_t> steps;
  std::vector<Scalar> last;

  SummarySaver::Sink sink() {
    return [this](std::int64_t step, const std::vector<Scalar>& scalars) {
      steps.push_back(step);
      last = scalars;
    };
  }
};

void take(SummarySaver& saver, FakeRun& run, int count) {
  for (int i = 0; i < count; ++i) run.take_step(saver, {{"loss", 0.25}});
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("summary_saver: every 8 of 30 steps writes 1, 9, 17 and 25") {
    FakeRun run;
    Written written;
    SummarySaver saver(8, 1000, written.sink());
    saver.ready(run);
    take(saver, run, 30);
    CHECK(written.steps == std::vector<std::int64_t>{1, 9, 17, 25});
    REQUIRE(written.last.size() == 1);
    CHECK(written.last[0].tag == "loss");
    CHECK(written.last[0].value == 0.25);
  }

  TEST_CASE("summary_saver: a resumed run writes at the steps of an uninterrupted one") {
    FakeRun run(100);
    Written written;
    SummarySaver saver(8, 1000, written.sink());
    for (int i = 0; i < 2; ++i) {
      saver.ready(run);
      take(saver, run, 10);
    }
    CHECK(written.steps == std::vector<std::int64_t>{105, 113});
  }

  TEST_CASE("summary_saver: an epoch's report and validation are written for its last step") {
    troupe::Report train{troupe::Phase::train, 8, {{"loss", 0.5}}, {}, {{"accuracy", 0.75, {}}}, 1};
    troupe::Report validation{troupe::Phase::validation, 4, {{"loss", 0.25}}, {},
                              {{"accuracy", 1, {}}},     1};
    FakeRun run(40);
    Written written;
    SummarySaver saver(8, 1000, written.sink());
    saver.ready(run);
    saver.after_epoch(0, train, nullptr);  // a run that resumed at the end of its epoch
    take(saver, run, 2);
    saver.after_epoch(1, train, &validation);
    CHECK(written.steps == std::vector<std::int64_t>{40, 41, 42});
    REQUIRE(written.last.size() == 4);
    CHECK(written.last[0].tag == "train/loss");
    CHECK(written.last[0].value == 0.5);
    CHECK(written.last[1].tag == "train/accuracy");
    CHECK(written.last[2].tag == "validation/loss");
    CHECK(written.last[3].tag == "validation/accuracy");
    CHECK(written.last[3].value == 1.0);
  }

  TEST_CASE("summary_saver: without losses there is no summary") {
    FakeRun run;
    Written written;
    SummarySaver saver(1, 1000, written.sink());
    saver.ready(run);
    run.take_step(saver);
    CHECK(written.steps.empty());
  }

  TEST_CASE("summary_saver: the last step is written whatever the period") {
    FakeRun run;
    Written written;
    SummarySaver saver(8, 14, written.sink());
    saver.ready(run);
    take(saver, run, 14);
    CHECK(written.steps == std::vector<std::int64_t>{1, 9, 14});
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
}
