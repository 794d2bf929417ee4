#include "tests/simulation/elastic_plan.h"

#include <algorithm>

#include "tests/support/test_secret.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

constexpr std::uint64_t kAnotherStream = 0xE1A571C;
constexpr std::uint64_t kFarewells = 0xFA2E3E11;
constexpr std::uint64_t kSight = 0x5161447;
constexpr std::uint64_t kTelling = 0x7E111;

void draw_options(ElasticPlan& plan, bool is_apart, Random& random) {
  GroupOptions& options = plan.options;
  options.secret = testing::test_secret();
  options.insecure = true;  // TLS stays out
  options.start_timeout = ms(8'000);
  options.heartbeat_interval = ms(random.between(200, 800));
  options.heartbeat_timeout = ms(random.between(2'000, 4'000));
  options.collective_timeout = options.heartbeat_timeout + ms(random.between(2'000, 4'000));
  options.close_timeout = options.collective_timeout;
  options.spin = options.arrival_spin = std::chrono::microseconds(0);
  options.transport = is_apart ? Transport::tcp
                               : random.any_of({Transport::automatic, Transport::tcp,
                                                Transport::unix_socket, Transport::shared_memory});
}

void draw_terms(ElasticPlan& plan, Random& random) {
  plan.terms.min_workers = random.one_in(2) ? 1 : static_cast<int>(random.between(1, plan.workers));
  plan.terms.regroup_limit = ms(random.between(500, 8'000));
  plan.terms.leave_limit = ms(20'000);  // longer than a start or a collective
}

void draw_training(ElasticPlan& plan, Random& random) {
  plan.steps = static_cast<int>(random.between(2, 16));
  plan.step_pause = random.any_of({Time{0}, 20 * kMillisecond, 200 * kMillisecond});
  plan.count = random.any_of<std::size_t>({1, 100, 5'000, 20'000});
  plan.is_in_buffer = random.one_in(2);
  plan.restarts = static_cast<int>(random.any_of({0, 3, 6, 6}));
  plan.restart_pause = random.any_of({Time{0}, 20 * kMillisecond, 300 * kMillisecond});
  plan.has_late_words = random.one_in(3);
}

Trouble draw_trouble(bool is_apart, Random& random) {
  if (random.one_in(2)) return Trouble::kill;
  if (is_apart && random.one_in(2))
    return random.any_of({Trouble::cut_one_way, Trouble::cut_both_ways, Trouble::short_cut});
  return random.any_of({Trouble::short_stop, Trouble::long_stop, Trouble::slow, Trouble::reset,
                        Trouble::half_reset, Trouble::half_open});
}

Time draw_duration(const ElasticPlan& plan, Trouble trouble, Random& random) {
  const Time silence = std::chrono::nanoseconds(plan.options.heartbeat_timeout).count();
  switch (trouble) {
    case Trouble::short_stop:
    case Trouble::short_cut:
      return random.between(kMillisecond, silence * 2 / 5);
    case Trouble::long_stop:
      return random.between(silence, silence * 3);
    case Trouble::slow:
      return random.between(kMicrosecond, 3 * kMillisecond);
    case Trouble::cut_one_way:
    case Trouble::cut_both_ways:
      return random.one_in(4) ? kNever : random.between(kSecond, 20 * kSecond);
    default:
      return 0;
  }
}

Strike draw_strike(const ElasticPlan& plan, bool is_apart, Random& random) {
  const auto workers = static_cast<std::uint64_t>(plan.workers);
  Strike strike;
  strike.trouble = draw_trouble(is_apart, random);
  strike.victim = static_cast<int>(random.below(workers));
  strike.other = static_cast<int>(random.below(workers - 1));
  if (strike.other >= strike.victim) ++strike.other;
  strike.is_double = random.one_in(5);
  strike.is_timed = random.one_in(4);
  strike.incarnation = plan.restarts == 0 ? 0 : random.any_of({0, 0, 0, 1, 1, 2});
  strike.place = random.any_of(
      {Place::before, Place::between, Place::concluded, Place::telling, Place::voted});
  if (random.one_in(6))
    strike.place = random.any_of({Place::start, Place::sharing, Place::closing});
  strike.step = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.steps)));
  // A joiner: while it is admitted.
  if (strike.incarnation > 0 && random.one_in(2)) strike.place = Place::sharing;
  strike.calls = 1 + random.below(random.any_of<std::uint64_t>({1, 30, 300}));
  const Time whole = plan.starts.back() + (plan.steps + 1) * (plan.step_pause + kMillisecond);
  strike.delay = random.between(0, strike.is_timed ? whole : 2 * kMillisecond);
  strike.duration = draw_duration(plan, strike.trouble, random);
  return strike;
}

/// One is killed, and others while the rounds after it form.
void draw_chain(ElasticPlan& plan, Random& random) {
  plan.terms.min_workers = 1;
  plan.steps = std::max(plan.steps, 6);
  plan.step_pause = 20 * kMillisecond;
  plan.restarts = 6;
  plan.restart_pause = random.any_of({Time{0}, kMillisecond, 20 * kMillisecond});
  const auto workers = static_cast<std::uint64_t>(plan.workers);
  for (auto left = random.between(2, 4); left > 0; --left) {
    Strike strike;
    strike.victim = static_cast<int>(random.below(workers));
    strike.place = random.any_of(
        {Place::before, Place::between, Place::concluded, Place::telling, Place::voted});
    strike.step = static_cast<int>(random.below(3));
    if (!plan.strikes.empty()) {
      strike.incarnation = random.any_of({0, 0, 0, 1});
      strike.place = random.any_of({Place::leaving, Place::left, Place::issued, Place::admitting,
                                    Place::admitting, Place::sharing});
    }
    strike.calls = 1 + random.below(random.any_of<std::uint64_t>({1, 10, 100, 300}));
    plan.strikes.push_back(strike);
  }
}

/// From a stream of its own: what else befalls a seed's group stays what it was.
void draw_farewells(ElasticPlan& plan) {
  Random random(plan.seed ^ kFarewells);
  if (!random.one_in(4)) return;
  const bool is_of_all = random.one_in(5);
  const auto first = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.workers)));
  const int count = is_of_all ? plan.workers : static_cast<int>(random.between(1, 2));
  const auto step = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.steps)));
  for (int i = 0; i < count; ++i)
    plan.farewells.push_back({(first + i) % plan.workers,
                              is_of_all ? 0 : random.any_of({0, 0, 0, 1}),
                              step + random.any_of({0, 0, 1})});
}

/// Likewise.
void draw_sight(ElasticPlan& plan) {
  Random random(plan.seed ^ kSight);
  const bool all_see = !random.one_in(4);
  for (int index = 0; index < plan.workers; ++index)
    plan.sees.push_back(all_see || index == 0 || random.one_in(3));
}

/// Likewise. The first leader is killed when it has told what others may have to do again.
void draw_telling(ElasticPlan& plan) {
  Random random(plan.seed ^ kTelling);
  if (!random.one_in(4)) return;
  Strike strike;
  strike.place = Place::telling;
  strike.step = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.steps)));
  strike.calls = 1 + random.below(random.any_of<std::uint64_t>({1, 3, 30}));
  plan.strikes.push_back(strike);
}

std::string in_words(const Strike& strike) {
  constexpr const char* kPlaces[] = {"start",     "leaving", "left",    "issued",
                                     "admitting", "before",  "between", "concluded",
                                     "telling",   "voted",   "sharing", "closing"};
  const std::string when =
      strike.is_timed
          ? text("at ", static_cast<double>(strike.delay) / kSecond, " s")
          : text("of incarnation ", strike.incarnation, " from step ", strike.step, " on, ",
                 kPlaces[static_cast<int>(strike.place)], " + ", strike.calls, " calls");
  const bool has_end = strike.duration != 0 && strike.duration != kNever;
  return text(name_of(strike.trouble), " of worker/", strike.victim,
              strike.is_double ? " with" : " (and", " worker/", strike.other,
              strike.is_double ? " " : ") ", when,
              has_end ? text(", for ", static_cast<double>(strike.duration) / kSecond, " s") : "");
}

}  // namespace

bool is_elastic(std::uint64_t seed) { return Random(seed ^ kAnotherStream).one_in(3); }

bool is_signal(Trouble trouble) {
  return trouble == Trouble::kill || trouble == Trouble::short_stop ||
         trouble == Trouble::long_stop;
}

std::string ElasticPlan::describe() const {
  std::vector<std::string> all;
  for (const Strike& strike : strikes) all.push_back(in_words(strike));
  for (const Farewell& each : farewells)
    all.push_back(text("worker/", each.worker, " of incarnation ", each.incarnation,
                       " is told to end from step ", each.step, " on"));
  return text("elastic: ", workers, " workers, at least ", terms.min_workers, ", ",
              hosts.front() == hosts.back() ? "one machine" : "several machines", ", --transport ",
              troupe::name_of(options.transport), ", ", steps, " steps, ", restarts, " restarts; ",
              all.empty() ? "none" : join(all, "; "));
}

ElasticPlan draw_elastic_plan(std::uint64_t seed) {
  Random random(seed);
  ElasticPlan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(random.between(2, 5));
  const bool is_apart = random.one_in(3);
  for (int index = 0; index < plan.workers; ++index)
    plan.hosts.push_back(is_apart ? text("10.0.0.", index + 1) : "127.0.0.1");
  draw_options(plan, is_apart, random);
  draw_terms(plan, random);
  draw_training(plan, random);
  const Time latest = random.any_of({Time{0}, 20 * kMillisecond, kSecond});
  for (int index = 0; index < plan.workers; ++index)
    plan.starts.push_back(random.between(0, latest));
  plan.least_delay = random.any_of({20 * kMicrosecond, 200 * kMicrosecond, 5 * kMillisecond});
  plan.most_delay = plan.least_delay * random.between(1, 10);
  plan.buffer_bytes = random.any_of<std::size_t>({1 << 15, 1 << 17, 1 << 20});
  draw_farewells(plan);
  draw_sight(plan);
  if (plan.workers > 2 && random.one_in(2)) {
    draw_chain(plan, random);
  } else {
    for (auto left = random.any_of({0, 1, 1, 2, 2, 3, 4}); left > 0; --left)
      plan.strikes.push_back(draw_strike(plan, is_apart, random));
  }
  draw_telling(plan);
  return plan;
}

}  // namespace troupe::simulation
