// What follows from what the workers ask for, as a table.
#include "troupe/train/step_flags.h"

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"

namespace step_flags_test {

using troupe::detail::decide;
using troupe::detail::StepDecision;
using troupe::detail::StepFlags;

namespace {

StepFlags with(const std::function<void(StepFlags&)>& change) {
  StepFlags flags;
  change(flags);
  return flags;
}

/// The flags of several workers, as an all-reduce adds them up.
StepFlags sum(const std::vector<StepFlags>& workers) {
  std::vector<double> total(troupe::detail::to_values({}).size(), 0.0);
  for (const StepFlags& each : workers) {
    const std::vector<double> values = troupe::detail::to_values(each);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += values[i];
  }
  total.push_back(17);  // of another sender behind it
  return troupe::detail::from_values(troupe::Span<const double>(total));
}

/// In one line: what is decided of three workers, of which the second asks for something.
std::string decided(const std::function<void(StepFlags&)>& ask, bool is_last = false) {
  const StepDecision made = decide(sum({{}, with(ask), {}}), is_last);
  std::string line;
  const auto add = [&](bool holds, const char* word) {
    if (holds) line += (line.empty() ? "" : ", ") + std::string(word);
  };
  add(made.not_finite, "not finite");
  add(made.signal == SIGTERM, "SIGTERM");
  add(made.signal == SIGHUP, "SIGHUP");
  add(made.signal == SIGINT, "SIGINT");
  add(made.too_few, "too few");
  add(made.stops, "stops");
  add(made.is_over, "over");
  add(made.saves, "saves");
  add(made.admits, "admits");
  return line;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("step flags: what one worker asks for, all do") {
    CHECK(decided([](StepFlags&) {}).empty());
    CHECK(decided([](StepFlags&) {}, /*is_last=*/true) == "over, saves");
    CHECK(decided([](StepFlags& f) { f.save = 1; }) == "saves");
    CHECK(decided([](StepFlags& f) { f.stop = 1; }) == "stops, over, saves");
    CHECK(decided([](StepFlags& f) { f.not_finite = 1; }) == "not finite");
    CHECK(decided([](StepFlags& f) { f.too_few = 1; }) == "too few");
    CHECK(decided([](StepFlags& f) { f.admit = 1; }) == "admits");
    CHECK(decided([](StepFlags& f) { f.depart = 1; }) == "admits");
  }

  TEST_CASE("step flags: nobody is admitted to a training that is over") {
    CHECK(decided([](StepFlags& f) { f.admit = f.stop = 1; }) == "stops, over, saves");
    CHECK(decided([](StepFlags& f) { f.admit = 1; }, /*is_last=*/true) == "over, saves");
  }

  TEST_CASE("step flags: of several signals the first in the list is the run's") {
    CHECK(decided([](StepFlags& f) { f.signals = {0, 0, 1}; }) == "SIGINT");
    CHECK(decided([](StepFlags& f) { f.signals = {0, 1, 1}; }) == "SIGHUP");
    CHECK(decided([](StepFlags& f) { f.signals = {1, 1, 1}; }) == "SIGTERM");
  }

  TEST_CASE("step flags: where all workers depart, training ends") {
    const StepFlags departs = with([](StepFlags& f) { f.depart = 1; });
    CHECK(decide(sum({departs, departs}), false).signal == SIGTERM);
    CHECK(decide(sum({departs, {}}), false).signal == 0);
  }

  TEST_CASE("step flags: a loop or an epoch that ends on some workers alone is refused") {
    const StepFlags left = with([](StepFlags& f) { f.left = 1; });
    const StepFlags at_end = with([](StepFlags& f) { f.at_end = 1; });
    for (const StepFlags& one : {left, at_end}) {
      CHECK_NOTHROW((void)decide(sum({one, one}), false));
      CHECK_THROWS_AS((void)decide(sum({one, {}}), false), troupe::DesyncError);
    }
  }

  TEST_CASE("step flags: the leader's checkpoint travels exactly") {
    const std::int64_t step = (std::int64_t{1} << 52) + 1;
    CHECK(sum({{}, with([&](StepFlags& f) { f.saved = step; })}).saved == step);
    CHECK(sum({{}, {}, {}}).workers == 3);
  }
}

}  // namespace step_flags_test
