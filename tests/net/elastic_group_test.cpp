#include "troupe/distributed/elastic/elastic_group.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/elastic_hall.h"
#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/distributed/collectives/call.h"

namespace elastic_group_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using std::chrono::seconds;

constexpr int kLeaves = 8;

/// Where a worker dies, in the order in which a step passes by.
enum class Place { before, between, concluded, voted, about_to_share, sharing, nowhere };
struct Death {
  int step = -1;  // of sharing: at the first
  Place place = Place::nowhere;
};
struct Died {};

double leaf_value(int step, int leaf) { return (step + 1) * 1000.0 + leaf; }

/// What every run must come to, whoever computes it.
double expected_total(int steps) {
  double total = 0;
  for (int step = 0; step < steps; ++step) {
    for (int leaf = 0; leaf < kLeaves; ++leaf) total += 3 * leaf_value(step, leaf);
  }
  return total;
}

/// A training in small: two sums make a step, of which the first is large and the second short.
class Training {
 public:
  /// `step`: what is done, for all to see.
  Training(ElasticGroup& group, int steps, int& step, Death death)
      : group_(group), steps_(steps), step_(step), death_(death) {}

  /// Returns the total.
  double run(bool joins) {
    group_.join({});
    if (joins) group_.enter([this] { share(); });
    group_.start();
    while (step_ < steps_) {
      take_step();
      if (vote()) group_.admit([this] { share(); });
    }
    group_.close();
    return total_;
  }

 private:
  [[nodiscard]] static Deadline soon() { return Deadline::in(seconds(20)); }

  void pass(Place place) const {
    const bool is_shared = place == Place::about_to_share || place == Place::sharing;
    const bool is_now = death_.step == step_ || (is_shared && death_.step < 0);
    if (death_.place == place && is_now) throw Died();
  }

  [[nodiscard]] double own_sum() const {
    const TreeCut::Node node =
        TreeCut(kLeaves, group_.cluster().world_size()).node(group_.cluster().rank);
    double sum = 0;
    for (int leaf = node.begin; leaf < node.end; ++leaf) sum += leaf_value(step_, leaf);
    return sum;
  }

  void take_step() {
    for (;;) {
      try {
        pass(Place::before);
        std::vector<double> large(5000, own_sum());
        group_.group().all_reduce(Span<double>(large), soon());
        pass(Place::between);
        double small = 2 * own_sum();
        const Span<double> outcome(&small, 1);
        group_.conclude(as_writable_bytes(outcome),
                        [&] { group_.group().all_reduce(outcome, soon()); });
        pass(Place::concluded);
        group_.commit(as_bytes(Span<const double>(&small, 1)));
        total_ += large.back() + small;
        ++step_;
        return;
      } catch (const RepeatTransaction&) {
      } catch (const NetError& error) {
        group_.heal(error);
      }
    }
  }

  bool vote() {
    const auto votes = group_.agree([this] {
      double wish = group_.joiners_wait() ? 1 : 0;
      group_.group().all_reduce(Span<double>(&wish, 1), soon());
      const auto bytes = as_bytes(Span<const double>(&wish, 1));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
    pass(Place::voted);
    double wishes = 0;
    std::memcpy(&wishes, votes.data(), sizeof wishes);
    return wishes > 0;
  }

  void share() {
    pass(Place::about_to_share);
    double state[2] = {static_cast<double>(step_), total_};
    group_.group().broadcast(as_writable_bytes(Span<double>(state, 2)), 0, soon());
    pass(Place::sharing);
    step_ = static_cast<int>(state[0]);
    total_ = state[1];
  }

  ElasticGroup& group_;
  const int steps_;
  int& step_;
  const Death death_;
  double total_ = 0;
};

/// Runs `workers` of which some die as `deaths` says (by incarnation, the first for the process
/// that the group starts with), and begin anew `restarts` times each. Returns the totals of those
/// that saw the end.
std::vector<double> train(int workers, int steps, std::map<int, std::vector<Death>> deaths,
                          int restarts) {
  ElasticHall hall(workers);
  std::vector<double> totals;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int index = 0; index < workers; ++index) {
    threads.emplace_back([&, index] {
      for (int incarnation = 0; incarnation <= restarts; ++incarnation) {
        const auto& own = deaths[index];
        const auto at = static_cast<std::size_t>(incarnation);
        ElasticHall::Place place = hall.enter(index, incarnation > 0);
        try {
          int step = 0;
          ElasticGroup group(place.cluster, hall.options(), std::move(place.rounds),
                             {nullptr, [&](Readiness& mine, int /*lost*/) { mine.step = step; }});
          Training training(group, steps, step, at < own.size() ? own[at] : Death{});
          const double total = training.run(incarnation > 0);
          const std::lock_guard<std::mutex> lock(mutex);
          totals.push_back(total);
          hall.leave(index, 0);
          return;
        } catch (const Died&) {
          hall.leave(index, std::nullopt);
        } catch (const NothingLeft&) {
          hall.leave(index, 0);
          return;
        } catch (const std::exception& error) {
          FAIL_CHECK(text("worker/", index, ": ", error.what()));
          hall.leave(index, 1);
          return;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& why : hall.expelled()) FAIL_CHECK(why);
  return totals;
}

void check_totals(const std::vector<double>& totals, std::size_t at_least, int steps) {
  CHECK(totals.size() >= at_least);
  for (const double total : totals) CHECK(total == expected_total(steps));
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("elastic: undisturbed, a group is one round") {
    check_totals(train(3, 20, {}, 0), 3, 20);
  }

  TEST_CASE("elastic: wherever in a step one dies, the others go on with the same sums") {
    for (const Place place : {Place::before, Place::between, Place::concluded, Place::voted}) {
      for (const int victim : {0, 1, 2}) {
        CAPTURE(static_cast<int>(place));
        CAPTURE(victim);
        check_totals(train(3, 12, {{victim, {{5, place}}}}, 0), 2, 12);
      }
    }
  }

  // As where one survivor had begun to compare weights, and the other had not.
  TEST_CASE("elastic: survivors that were at collectives with other labels begin the next round") {
    ElasticHall hall(3);
    std::vector<std::thread> threads;
    for (int index = 0; index < 3; ++index) {
      threads.emplace_back([&hall, index] {
        ElasticHall::Place place = hall.enter(index, false);
        try {
          ElasticGroup group(place.cluster, hall.options(), std::move(place.rounds));
          group.join({});
          group.start();
          try {
            group.group().barrier(Deadline::in(seconds(20)));  // all have started
            if (index == 2) throw Died();
            group.group().barrier(Deadline::in(seconds(20)));
            FAIL_CHECK("one of the workers is not there");
          } catch (const NetError& error) {
            const CollectiveLabel label(text("what worker/", index, " does"));
            group.heal(error);
          }
          CHECK(group.cluster().world_size() == 2);
          group.close();
          hall.leave(index, 0);
        } catch (const Died&) {
          hall.leave(index, std::nullopt);
        } catch (const std::exception& error) {
          FAIL_CHECK(text("worker/", index, ": ", error.what()));
          hall.leave(index, 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Its launcher may know before a connection has closed: here none closes.
  TEST_CASE("elastic: who is lost by the rendezvous' word is named, with what it computed") {
    ElasticHall hall(3);
    std::atomic<int> healed{0};
    std::atomic<int> named{0};  // the second to leave may name the first, whose connections closed
    std::vector<std::thread> threads;
    for (int index = 0; index < 3; ++index) {
      threads.emplace_back([&, index] {
        ElasticHall::Place place = hall.enter(index, false);
        Readiness told;
        int described = -1;
        ElasticGroup group(place.cluster, hall.options(), std::move(place.rounds),
                           {nullptr, [&](Readiness& mine, int lost) {
                              told = mine;
                              described = lost;
                            }});
        try {
          group.join({});
          group.start();
          try {
            group.group().barrier(Deadline::in(seconds(60)));  // all have started
            if (index == 2) {
              hall.leave(index, std::nullopt);
              while (healed < 2) std::this_thread::yield();
              return;
            }
            group.group().barrier(Deadline::in(seconds(60)));
            FAIL_CHECK("one of the workers is not there");
          } catch (const NetError& error) {
            group.heal(error);
          }
          if (told.lost == "worker/2" && described == 2) ++named;
          CHECK(group.cluster().world_size() == 2);
          ++healed;
          group.close();
          hall.leave(index, 0);
        } catch (const std::exception& error) {
          FAIL_CHECK(text("worker/", index, ": ", error.what()));
          healed = 2;
          hall.leave(index, 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(named > 0);
  }

  TEST_CASE("elastic: a chief lost after the training is healed by no handler") {
    ElasticHall hall(3);
    std::atomic<int> met{0};
    std::vector<std::thread> threads;
    for (int index = 0; index < 3; ++index) {
      threads.emplace_back([&hall, &met, index] {
        ElasticHall::Place place = hall.enter(index, false);
        try {
          ElasticGroup group(place.cluster, hall.options(), std::move(place.rounds));
          group.join({});
          group.start();
          const auto meet = [&] { group.group().barrier(Deadline::in(seconds(20))); };
          meet();
          group.end();
          ++met;
          if (index == 0) {
            (void)eventually([&] { return met == 3; });
            throw Died();
          }
          try {
            group.conclude({}, meet);
            FAIL_CHECK("the chief is not there");
          } catch (const NetError& error) {  // as that of a step, in which this transaction is
            CHECK_THROWS_AS(group.heal(error), PeerLost);
          }
          CHECK(group.take_changes().size() == 1);
          hall.leave(index, std::nullopt);
        } catch (const Died&) {
          hall.leave(index, std::nullopt);
        } catch (const std::exception& error) {
          FAIL_CHECK(text("worker/", index, ": ", error.what()));
          hall.leave(index, 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  TEST_CASE("elastic: one after the other, down to the last") {
    check_totals(
        train(4, 20,
              {{0, {{3, Place::between}}}, {2, {{9, Place::concluded}}}, {1, {{9, Place::before}}}},
              0),
        1, 20);
  }

  TEST_CASE("elastic: who comes again takes part") {
    check_totals(train(3, 400, {{1, {{5, Place::between}}}, {0, {{40, Place::voted}}}}, 1), 3, 400);
  }

  TEST_CASE("elastic: one that dies while it is admitted, or while it admits") {
    check_totals(train(3, 400, {{1, {{5, Place::between}, {0, Place::sharing}}}}, 2), 3, 400);
  }

  TEST_CASE("elastic: one that waits, waits again where those are lost who would let it in") {
    for (const Place place : {Place::about_to_share, Place::sharing}) {
      for (const int victim : {0, 2}) {
        CAPTURE(victim);
        check_totals(train(3, 2000, {{1, {{5, Place::between}}}, {victim, {{-1, place}}}}, 1), 3,
                     2000);
      }
    }
  }

  TEST_CASE("elastic: at random, again and again") {
    std::mt19937 random(20261124);
    for (int round = 0; round < 8; ++round) {
      std::map<int, std::vector<Death>> deaths;
      for (int index = 0; index < 4; ++index) {
        for (int life = 0; life < 3 && index != round % 4; ++life) {
          deaths[index].push_back(
              {static_cast<int>(random() % 300) + 20 * life, static_cast<Place>(random() % 5)});
        }
      }
      CAPTURE(round);
      check_totals(train(4, 300, deaths, 3), 1, 300);
    }
  }
}

}  // namespace elastic_group_test
