#include "tests/simulation/plan.h"

#include <algorithm>
#include <chrono>

#include "tests/support/test_secret.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

constexpr std::uint16_t kFirstPort = 2222;
constexpr std::uint64_t kGeneration = 3;
constexpr std::uint64_t kMessages = 0x3E55A6E5;

// What needs machines of their own, and what only addresses that no two starts share.
bool needs_machines(Trouble trouble) {
  switch (trouble) {
    case Trouble::power_loss:
    case Trouble::cut_one_way:
    case Trouble::cut_both_ways:
    case Trouble::isolated:
    case Trouble::short_cut:
    case Trouble::flipped_bit:
      return true;
    default:
      return false;
  }
}

bool needs_free_addresses(Trouble trouble) {
  switch (trouble) {
    case Trouble::stale:
    case Trouble::newer:
    case Trouble::wrong_secret:
    case Trouble::twin:
    case Trouble::next_start:
      return true;
    default:
      return false;
  }
}

void draw_hosts(Plan& plan, Random& random) {
  const bool apart = needs_machines(plan.trouble) || random.one_in(2);
  const bool in_two = !needs_machines(plan.trouble) && random.one_in(5);
  for (int rank = 0; rank < plan.workers; ++rank) {
    if (in_two) {
      plan.hosts.push_back(rank < (plan.workers + 1) / 2 ? "10.0.0.1" : "10.0.0.2");
    } else {
      plan.hosts.push_back(apart ? text("10.0.0.", rank + 1) : "127.0.0.1");
    }
  }
}

void draw_cluster(Plan& plan, Random& random) {
  const bool all_have_addresses = !needs_free_addresses(plan.trouble) && random.one_in(2);
  plan.cluster.members.clear();
  for (int rank = 0; rank < plan.workers; ++rank) {
    Member member{rank == 0 ? "chief/0" : text("worker/", rank), std::nullopt};
    if (rank == 0 || all_have_addresses) {
      member.address = Endpoint{plan.hosts[static_cast<std::size_t>(rank)],
                                static_cast<std::uint16_t>(kFirstPort + rank)};
    }
    plan.cluster.members.push_back(member);
  }
  plan.cluster.generation = kGeneration;
  plan.cluster.origin = "the simulation";
}

void draw_options(Plan& plan, Random& random) {
  GroupOptions& options = plan.options;
  options.secret = testing::test_secret();
  options.insecure = true;  // TLS stays out
  options.start_timeout = ms(12'000);
  options.heartbeat_interval = ms(random.between(200, 800));
  options.heartbeat_timeout = ms(random.between(2'000, random.one_in(2) ? 4'000 : 8'000));
  // A chief that is gone is missed before a worker tires of another that waits for it.
  options.collective_timeout = options.heartbeat_timeout + ms(random.between(2'000, 4'000));
  options.close_timeout = options.collective_timeout;
  options.spin = options.arrival_spin = std::chrono::microseconds(0);
  const bool needs_tcp = needs_machines(plan.trouble);
  options.transport = random.any_of({Transport::automatic, Transport::automatic, Transport::tcp});
  if (plan.on_one_machine() && random.one_in(4)) options.transport = Transport::unix_socket;
  if (needs_tcp) options.transport = Transport::tcp;
  if (plan.on_one_machine() && plan.trouble == Trouble::no_memory) {
    options.transport = random.any_of({Transport::automatic, Transport::shared_memory});
  }
  options.sum_route = random.any_of({detail::SumRoute::automatic, detail::SumRoute::automatic,
                                     detail::SumRoute::direct, detail::SumRoute::two_level});
}

void draw_deeds(Plan& plan, Random& random) {
  const auto count = random.between(1, 10);
  const Time longest_pause = random.any_of({Time{0}, 2 * kMillisecond, 300 * kMillisecond});
  for (std::int64_t i = 0; i < count; ++i) {
    Deed deed{};
    deed.kind = static_cast<Deed::Kind>(random.below(static_cast<int>(Deed::Kind::announce) + 1));
    deed.count = random.any_of<std::size_t>({1, 7, 100, 1'000, 5'000});
    if (random.one_in(12) && plan.least_delay <= kMillisecond) deed.count = 100'000;
    deed.root = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.workers)));
    deed.pause = longest_pause == 0 ? 0 : random.between(0, longest_pause);
    plan.deeds.push_back(deed);
  }
}

void draw_moment(Plan& plan, Random& random) {
  const auto deeds = static_cast<std::int64_t>(plan.deeds.size());
  Moment& moment = plan.moment;
  const Time some =
      random.any_of({Time{0}, 50 * kMicrosecond, 2 * kMillisecond, 500 * kMillisecond});
  moment.delay = some == 0 ? 0 : random.between(0, some);
  moment.kind = random.any_of(
      {Moment::Kind::time, Moment::Kind::deed, Moment::Kind::deed, Moment::Kind::call});
  moment.deed = static_cast<int>(random.between(-1, deeds));
  moment.call = 1 + random.below(random.any_of<std::uint64_t>({100, 400, 1'500}));
  if (moment.kind == Moment::Kind::time) moment.delay = random.between(0, 3 * kSecond);
  const bool is_signal = plan.trouble == Trouble::kill || plan.trouble == Trouble::long_stop ||
                         plan.trouble == Trouble::short_stop;
  if (moment.kind == Moment::Kind::call && !is_signal) moment.kind = Moment::Kind::deed;
  const bool is_its_own = plan.trouble == Trouble::hang || plan.trouble == Trouble::failure ||
                          plan.trouble == Trouble::desync;
  if (is_its_own) moment.deed = static_cast<int>(random.between(0, deeds - 1));
  const bool is_a_start = plan.trouble == Trouble::stale || plan.trouble == Trouble::newer ||
                          plan.trouble == Trouble::wrong_secret || plan.trouble == Trouble::twin ||
                          plan.trouble == Trouble::no_memory;
  if (is_a_start) moment.kind = Moment::Kind::time;
}

void draw_trouble(Plan& plan, Random& random) {
  const auto workers = static_cast<std::uint64_t>(plan.workers);
  plan.victim = static_cast<int>(random.below(workers));
  plan.other = static_cast<int>(random.below(workers - 1));
  if (plan.other >= plan.victim) ++plan.other;
  plan.byte = random.below(random.any_of<std::uint64_t>({300, 3'000, 30'000}));
  const Time silence = std::chrono::nanoseconds(plan.options.heartbeat_timeout).count();
  switch (plan.trouble) {
    case Trouble::short_stop:
    case Trouble::short_cut:
      plan.duration = random.between(kMillisecond, silence * 2 / 5);
      break;
    case Trouble::long_stop:
      plan.duration = random.between(silence * 2, silence * 2 + 3 * kSecond);
      break;
    case Trouble::slow:
      plan.duration = random.between(kMicrosecond, 3 * kMillisecond);
      break;
    case Trouble::no_descriptors:
      plan.duration = random.between(kMillisecond, 2 * kSecond);
      break;
    case Trouble::late:
      plan.starts[static_cast<std::size_t>(plan.victim)] = random.between(kSecond, 6 * kSecond);
      break;
    default:
      plan.duration = random.between(0, kSecond);
      break;
  }
  // The chief's word comes to one of them when the others have gone on.
  if (plan.trouble == Trouble::short_cut && plan.victim != 0 && random.one_in(2)) {
    plan.other = 0;
    plan.moment.kind = Moment::Kind::time;
    plan.moment.delay = random.between(0, 2 * kSecond);
    plan.options.heartbeat_timeout = ms(8'000);
    plan.options.collective_timeout = plan.options.close_timeout = ms(11'000);
    plan.duration = random.between(1'500, 3'200) * kMillisecond;
    plan.starts.back() = plan.moment.delay + random.between(0, 500 * kMillisecond);
  }
  // Only a limit beyond the heartbeats' is told apart from a worker that is gone.
  const bool is_hasty = plan.victim != 0 && random.one_in(2);
  if (is_hasty && plan.options.heartbeat_timeout < ms(4'000)) {
    plan.options.close_timeout = ms(5'000);
  }
  const bool needs_a_member = plan.trouble == Trouble::stale || plan.trouble == Trouble::newer ||
                              plan.trouble == Trouble::wrong_secret ||
                              plan.trouble == Trouble::twin || plan.trouble == Trouble::next_start;
  if (needs_a_member && plan.victim == 0) plan.victim = 1;
}

/// From a stream of its own: what else befalls a seed's group stays what it was. Something breaks
/// under one message, most likely of the start; or the chief hears of a death later than others.
void draw_messages(Plan& plan) {
  Random random(plan.seed ^ kMessages);
  const bool is_kill = plan.trouble == Trouble::kill;
  if (!is_kill && plan.trouble != Trouble::reset && plan.trouble != Trouble::half_reset) return;
  if (is_kill && plan.victim != 0 && !plan.on_one_machine()) {
    if (random.one_in(2) && plan.most_delay <= 20 * kMillisecond)
      plan.detour = random.between(0, 100 * kMillisecond);
    return;
  }
  if (random.one_in(3)) return;
  plan.moment.kind = Moment::Kind::message;
  plan.moment.message =
      static_cast<int>(random.between(1, random.one_in(4) ? 100 : 10 * plan.workers));
  if (is_kill && random.one_in(2)) plan.options.transport = Transport::unix_socket;
}

}  // namespace

const char* name_of(Trouble trouble) {
  constexpr const char* kNames[] = {
      "none",      "kill",        "power loss", "short stop",     "long stop",     "slow",
      "reset",     "half reset",  "half open",  "cut one way",    "cut both ways", "isolated",
      "short cut", "flipped bit", "no memory",  "no descriptors", "hang",          "failure",
      "desync",    "late",        "never",      "stale",          "newer",         "wrong secret",
      "twin",      "restart",     "next start"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == kTroubles);
  return kNames[static_cast<int>(trouble)];
}

bool Plan::on_one_machine() const {
  return std::all_of(hosts.begin(), hosts.end(),
                     [this](const std::string& host) { return host == hosts.front(); });
}

std::string Plan::describe() const {
  std::string when;
  switch (moment.kind) {
    case Moment::Kind::time:
      when = text("at ", static_cast<double>(moment.delay) / kSecond, " s");
      break;
    case Moment::Kind::deed:
      when = text(static_cast<double>(moment.delay) / kSecond, " s after it comes to deed ",
                  moment.deed);
      break;
    case Moment::Kind::call:
      when = text("at its system call ", moment.call);
      break;
    case Moment::Kind::message:
      when = text("under message ", moment.message, " to it");
      break;
  }
  return text(workers, " workers, ", on_one_machine() ? "one machine" : "several machines",
              ", --transport ", troupe::name_of(options.transport), ", ", deeds.size(), " deeds; ",
              name_of(trouble), " of ", cluster.members[static_cast<std::size_t>(victim)].task,
              " (and ", cluster.members[static_cast<std::size_t>(other)].task, ") ", when, ", for ",
              static_cast<double>(duration) / kSecond, " s");
}

Plan draw_plan(std::uint64_t seed) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(random.one_in(10) ? random.between(6, 9) : random.between(2, 5));
  plan.trouble = static_cast<Trouble>(random.below(kTroubles));
  if (random.one_in(4))
    plan.trouble = random.any_of({Trouble::kill, Trouble::reset, Trouble::short_cut});
  draw_hosts(plan, random);
  draw_cluster(plan, random);
  draw_options(plan, random);
  const Time latest = random.any_of({Time{0}, 20 * kMillisecond, 2 * kSecond});
  for (int rank = 0; rank < plan.workers; ++rank) {
    plan.starts.push_back(latest == 0 ? 0 : random.between(0, latest));
  }
  plan.least_delay = random.any_of({20 * kMicrosecond, 200 * kMicrosecond, 20 * kMillisecond});
  plan.most_delay = plan.least_delay * random.between(1, 10);
  plan.buffer_bytes = random.any_of<std::size_t>({1 << 15, 1 << 17, 1 << 20});
  // What would take too long is not what is looked for.
  if (plan.least_delay > kMillisecond) plan.buffer_bytes = std::size_t{1} << 20;
  draw_deeds(plan, random);
  draw_moment(plan, random);
  draw_trouble(plan, random);
  draw_messages(plan);
  return plan;
}

}  // namespace troupe::simulation
