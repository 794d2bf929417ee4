#include "train/callbacks/profiler.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"

using troupe::make_operator_recorder;
using troupe::TraceSpan;

namespace {

void forward_and_backward() {
  const auto weight = torch::ones({4, 3}, torch::requires_grad());
  torch::ones({2, 4}).mm(weight).sum().backward();
}

std::map<std::string, TraceSpan> by_name(const std::vector<TraceSpan>& spans) {
  std::map<std::string, TraceSpan> named;
  for (const TraceSpan& span : spans) named.emplace(span.name, span);
  return named;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("operator_recorder: operators of the forward and the backward pass, in order") {
    const auto recorder = make_operator_recorder();
    REQUIRE(recorder);
    recorder->start();
    forward_and_backward();
    const auto spans = recorder->stop();
    const auto named = by_name(spans);
    REQUIRE(named.count("aten::mm") == 1);
    REQUIRE(named.count("MmBackward0") == 1);
    const TraceSpan& forward = named.at("aten::mm");
    CHECK(forward.duration_us > 0);
    CHECK(forward.thread > 0);
    CHECK(named.at("MmBackward0").start_us >= forward.start_us + forward.duration_us);
    double last = 0;
    for (const TraceSpan& span : spans) {
      CHECK(span.start_us >= last);
      CHECK(span.duration_us >= 0);
      CHECK_FALSE(span.name.empty());
      last = span.start_us;
    }
  }

  TEST_CASE("operator_recorder: each recording is its own, and nothing is recorded in between") {
    const auto recorder = make_operator_recorder();
    REQUIRE(recorder);
    recorder->start();
    (void)torch::ones({2});
    CHECK(by_name(recorder->stop()).count("aten::mm") == 0);
    forward_and_backward();
    recorder->start();
    CHECK(recorder->stop().empty());
  }

  TEST_CASE("operator_recorder: one that is destroyed in a step makes room for the next") {
    try {
      const auto recorder = make_operator_recorder();
      REQUIRE(recorder);
      recorder->start();
      throw std::runtime_error("the step failed");
    } catch (const std::runtime_error&) {
    }
    const auto next = make_operator_recorder();
    next->start();
    forward_and_backward();
    CHECK(by_name(next->stop()).count("aten::mm") == 1);
  }

  TEST_CASE("profiler: the trace of a step holds its operators") {
    const troupe::testing::TempDir folder;
    troupe::testing::FakeClock clock;
    troupe::testing::FakeRun run;
    troupe::Profiler profiler(folder.path(), troupe::Every::n_steps(2), clock,
                              make_operator_recorder());
    profiler.ready(run);
    for (int step = 1; step <= 2; ++step) {
      profiler.before_step(run);
      forward_and_backward();
      clock.advance(troupe::Seconds(1));
      run.after_step(profiler, step);
    }
    std::ifstream in(folder / "timeline-2.json");
    const auto trace = nlohmann::json::parse(in);
    CHECK(trace.at(0).at("name") == "step 2");
    int products = 0;
    for (const auto& event : trace) {
      CHECK(event.at("ph") == "X");
      if (event.at("name") == "aten::mm") ++products;
    }
    CHECK(products >= 1);
  }
}
