// Who waits for whom: shares from each worker's time at work, and the word for one that is slower.
#include "troupe/train/straggler_watch.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
namespace {

using troupe::Span;
using troupe::detail::StragglerWatch;

StragglerWatch watch_of(int workers) {
  std::vector<std::string> tasks;
  for (int rank = 0; rank < workers; ++rank) tasks.push_back("worker/" + std::to_string(rank));
  return StragglerWatch(std::move(tasks));
}

void add(StragglerWatch& watch, const std::vector<double>& busy, double seconds, int steps = 1) {
  for (int step = 0; step < steps; ++step)
    watch.add(Span<const double>(busy.data(), busy.size()), seconds);
}

}  // namespace

TEST_CASE("stragglers: who is ready early waits for the slowest worker of each step") {
  StragglerWatch watch = watch_of(3);
  CHECK(watch.waiting().empty());
  add(watch, {1, 4, 2}, 5);
  add(watch, {3, 2, 2}, 5);
  const auto waiting = watch.waiting();
  REQUIRE(waiting.size() == 3);
  CHECK(waiting[0] == std::pair<std::string, double>("worker/0", 0.3));
  CHECK(waiting[1] == std::pair<std::string, double>("worker/1", 0.1));
  CHECK(waiting[2].second == doctest::Approx(0.3));
  CHECK(
      troupe::detail::to_line(waiting) ==
      "; waiting for the slowest worker: worker/0 30 %, worker/1 10 %, worker/2 30 % of the time");
}

TEST_CASE("stragglers: one that is slower by a quarter for a minute is named, once") {
  StragglerWatch watch = watch_of(3);
  add(watch, {0.8, 0.8, 1.01}, 1.1, 54);
  CHECK(watch.take_warning().empty());  // not a minute
  add(watch, {0.8, 0.8, 1.01}, 1.1);
  const std::string warning = watch.take_warning();
  CHECK(warning.rfind("worker/2 is slower than the others: 1010 ms of work a step for a minute, "
                      "800 ms of most, who wait 19 % of the time.",
                      0) == 0);
  add(watch, {0.8, 0.8, 1.01}, 1.1, 200);
  CHECK(watch.take_warning().empty());
  add(watch, {2, 0.8, 1.01}, 2, 100);  // another one
  CHECK(watch.take_warning().rfind("worker/0 ", 0) == 0);
}

TEST_CASE("stragglers: no word of a worker that is slower by less, in turn, or for little") {
  StragglerWatch by_less = watch_of(4);
  add(by_less, {0.8, 0.8, 0.99, 0.8}, 1, 300);
  CHECK(by_less.take_warning().empty());

  StragglerWatch in_turn = watch_of(2);
  for (int step = 0; step < 300; ++step)
    add(in_turn, {step % 2 == 0 ? 0.5 : 0.9, step % 2 == 0 ? 0.9 : 0.5}, 1);
  CHECK(in_turn.take_warning().empty());
  CHECK(in_turn.waiting()[0].second == doctest::Approx(0.2));

  StragglerWatch communication = watch_of(2);  // takes the time, not work
  add(communication, {0.01, 0.02}, 1, 300);
  CHECK(communication.take_warning().empty());
}

TEST_CASE("stragglers: many workers are a line of three numbers") {
  StragglerWatch watch = watch_of(100);
  std::vector<double> busy(100, 0.5);
  busy[17] = 1;
  busy[40] = 0.4;
  add(watch, busy, 2);
  CHECK(
      troupe::detail::to_line(watch.waiting()) ==
      "; waiting for the slowest worker: worker/17 0 % (least), worker/40 30 % (most), 25 % of the "
      "time (mean)");
}
