#include "tests/simulation/served_plan.h"

#include <chrono>

#include "tests/simulation/elastic_plan.h"
#include "tests/support/test_secret.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

constexpr std::uint64_t kAnotherStream = 0x5E12FED;

void draw_options(ServedPlan& plan, Random& random) {
  GroupOptions& options = plan.options;
  options.secret = testing::test_secret();
  options.insecure = true;  // TLS stays out
  options.start_timeout = ms(8'000);
  options.heartbeat_interval = ms(random.between(200, 800));
  options.heartbeat_timeout = ms(random.between(2'000, 4'000));
  options.collective_timeout = options.heartbeat_timeout + ms(random.between(2'000, 4'000));
  options.close_timeout = options.collective_timeout;
  plan.pace.min_shard_bytes = 8;
  const auto bound = random.any_of<std::int64_t>({-1, 0, 0, 1, 2});
  if (bound >= 0) plan.pace.staleness_bound = bound;
}

void draw_trouble(ServedPlan& plan, Random& random) {
  plan.victim =
      static_cast<int>(random.below(static_cast<std::uint64_t>(plan.workers + plan.servers)));
  plan.trouble = random.any_of({Trouble::none, Trouble::kill, Trouble::kill, Trouble::short_stop,
                                Trouble::long_stop, Trouble::slow, Trouble::reset,
                                Trouble::half_reset, Trouble::half_open, Trouble::restart});
  if (plan.trouble == Trouble::restart)
    plan.workers > 1 ? static_cast<void>(plan.victim = plan.workers - 1)
                     : static_cast<void>(plan.trouble = Trouble::kill);
  plan.is_timed = plan.victim >= plan.workers || random.one_in(4);
  plan.step = random.between(0, plan.last_step / plan.workers);
  plan.calls = 1 + random.below(random.any_of<std::uint64_t>({1, 30, 300}));
  const Time whole = plan.starts.back() + plan.last_step * (plan.step_pause + kMillisecond);
  plan.delay = random.between(0, plan.is_timed ? whole : 2 * kMillisecond);
  const Time silence = std::chrono::nanoseconds(plan.options.heartbeat_timeout).count();
  if (plan.trouble == Trouble::short_stop) plan.duration = random.between(1, silence * 2 / 5);
  if (plan.trouble == Trouble::long_stop) plan.duration = random.between(silence * 2, silence * 4);
  if (plan.trouble == Trouble::slow) plan.duration = random.between(1, 3 * kMillisecond);
  if (plan.trouble == Trouble::restart) plan.duration = random.between(0, 300 * kMillisecond);
}

}  // namespace

bool is_served(std::uint64_t seed) {
  return !is_elastic(seed) && Random(seed ^ kAnotherStream).one_in(4);
}

std::string ServedPlan::task(int process) const {
  return process < workers ? text("worker/", process) : text("ps/", process - workers);
}

std::string ServedPlan::describe() const {
  const std::string when = is_timed ? text("at ", static_cast<double>(delay) / kSecond, " s")
                                    : text("in its step ", step, ", + ", calls, " calls");
  return text("served: ", workers, " workers, ", servers, " servers, ",
              hosts.front() == hosts.back() ? "one machine" : "several machines", ", bound ",
              pace.staleness_bound.value_or(-1), ", ", last_step, " steps; ", name_of(trouble),
              " of ", task(victim), " ", when, ", for ", static_cast<double>(duration) / kSecond,
              " s");
}

ServedPlan draw_served_plan(std::uint64_t seed) {
  Random random(seed);
  ServedPlan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(random.between(1, 4));
  plan.servers = static_cast<int>(random.between(1, 3));
  const bool is_apart = random.one_in(2);
  const Time latest = random.any_of({Time{0}, 20 * kMillisecond, kSecond});
  for (int process = 0; process < plan.workers + plan.servers; ++process) {
    plan.hosts.push_back(is_apart ? text("10.0.0.", process + 1) : "127.0.0.1");
    plan.starts.push_back(random.between(0, latest));
  }
  draw_options(plan, random);
  plan.last_step = random.between(3, 40);
  plan.step_pause = random.any_of({Time{0}, 5 * kMillisecond, 100 * kMillisecond});
  plan.least_delay = random.any_of({20 * kMicrosecond, 200 * kMicrosecond, 5 * kMillisecond});
  plan.most_delay = plan.least_delay * random.between(1, 10);
  plan.buffer_bytes = random.any_of<std::size_t>({1 << 15, 1 << 17, 1 << 20});
  draw_trouble(plan, random);
  return plan;
}

}  // namespace troupe::simulation
