#include "tests/simulation/elastic_launcher.h"

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

constexpr std::uint64_t kFirstGeneration = 100;
constexpr Time kLongestReaping = 2 * kMillisecond;

Clock::TimePoint now() { return Clock::TimePoint(std::chrono::nanoseconds(World::the().now())); }

std::string task_of(const Life& life) { return text("worker/", life.who.index); }

std::string name_of(const Life& life) {
  const int incarnation = life.who.incarnation;
  return incarnation == 0 ? task_of(life) : text(task_of(life), " (", incarnation + 1, ")");
}

bool is_among(const std::vector<const Life*>& lives, const Life& life) {
  return std::find(lives.begin(), lives.end(), &life) != lives.end();
}

}  // namespace

ElasticLauncher::ElasticLauncher(const ElasticPlan& plan, Body live, OnPlace on_place)
    : plan_(plan), live_(std::move(live)), on_place_(std::move(on_place)), choices_(plan.seed + 2) {
  Round first{1, kFirstGeneration, 0, {}};
  IssuedRound& issued = rounds_[kFirstGeneration];
  issued.number = 1;
  for (int index = 0; index < plan_.workers; ++index) {
    Life& life = add_life({index, 0});
    life.round = 1;
    issued.members.push_back(&life);
    members_.push_back({task_of(life), life.address});
    first.members.push_back({members_.back().task, life.address, false});
  }
  rendezvous_.emplace(plan_.terms, first, losses_, [](std::uint64_t former) { return former + 1; });
}

Life& ElasticLauncher::add_life(RoundWorker who) {
  lives_.emplace_back();
  Life& life = lives_.back();
  life.who = who;
  life.number = static_cast<int>(lives_.size()) - 1;
  life.address = {plan_.hosts[static_cast<std::size_t>(who.index)], Network::the().free_port()};
  life.line = std::make_shared<Packets>(
      name_of(life), [this, &life](const std::string& packet) { take(life, packet); });
  if (plan_.has_late_words) life.line->most_delay = 20 * kMillisecond;
  return life;
}

void ElasticLauncher::start_all() {
  for (Life& life : lives_) {
    ++pending_;
    World::the().at(plan_.starts[static_cast<std::size_t>(life.who.index)], [this, &life] {
      --pending_;
      if (!has_failed_to_start_) start(life);
    });
  }
}

void ElasticLauncher::start(Life& life) {
  Cluster cluster;
  cluster.members = members_;
  cluster.rank = life.who.index;
  cluster.generation = kFirstGeneration;
  cluster.joins = life.who.incarnation > 0;
  cluster.on_this_machine = plan_.workers;
  cluster.origin = "the simulation";
  const auto descriptors = std::make_shared<std::pair<int, int>>();
  life.process = &World::the().start(
      name_of(life), life.address.host, [this, &life, cluster, descriptors]() mutable {
        cluster.listener = detail::InheritedSocket(descriptors->first);
        live_(life, cluster, descriptors->second);
        on_exit(life);
      });
  const auto listener = std::make_shared<Listener>();
  listener->local = Address::tcp(life.address.host, life.address.port);
  static_cast<void>(Network::the().listen(listener, life.address.host));
  descriptors->first = Descriptors::the().add(listener, *life.process);
  descriptors->second = Descriptors::the().add(life.line, *life.process);
}

void ElasticLauncher::start_again(int index) {
  --pending_;
  if (is_done_ || verdict_ || has_failed_to_start_) return;
  Life& life = add_life({index, last_of(index).who.incarnation + 1});
  const RoundWorker who = rendezvous_->starts(index, life.address);
  if (who.incarnation != life.who.incarnation) complain("an incarnation is another one's");
  start(life);
}

Life* ElasticLauncher::present(int index) {
  Life& last = last_of(index);
  return last.process == nullptr || last.process->ended() ? nullptr : &last;
}

Life& ElasticLauncher::last_of(int index) {
  return *std::find_if(lives_.rbegin(), lives_.rend(),
                       [index](const Life& life) { return life.who.index == index; });
}

void ElasticLauncher::on_exit(Life& life) { learn_of_end(life, life.exit_code); }

void ElasticLauncher::on_death(const Process& process) {
  for (Life& life : lives_)
    if (life.process == &process) learn_of_end(life, std::nullopt);
}

void ElasticLauncher::learn_of_end(Life& life, std::optional<int> exit_code) {
  World& world = World::the();
  Time when = world.now() + choices_.between(0, kLongestReaping);
  // That one has left, or saved, it says by its exit code, too, and that is told in order.
  const bool is_lost = !exit_code || *exit_code == kExitPeerLost;
  if (!plan_.has_late_words || !is_lost) when = std::max(when, life.line->last_arrival());
  ++pending_;
  world.at(when, [this, &life, exit_code] {
    --pending_;
    ended(life, exit_code);
  });
}

/// As the policy of `troupe run`: 138 is a loss, too.
void ElasticLauncher::ended(Life& life, std::optional<int> exit_code) {
  const bool is_lost = !exit_code || *exit_code == kExitPeerLost;
  life.is_gone = true;
  if (exit_code == 0 || life.has_saved) is_done_ = true;
  if (exit_code != 0 && !rendezvous_->has_started() && !std::exchange(has_failed_to_start_, true)) {
    for (const Life& other : lives_)
      if (other.process != nullptr) World::the().kill(*other.process);
  }
  rendezvous_->ended(life.who, is_lost ? std::nullopt : exit_code, now());
  carry_out();
  const bool again = is_lost && !life.is_dismissed && !is_done_ && !verdict_ &&
                     !has_failed_to_start_ && restarts_ < plan_.restarts;
  if (!again) return;
  ++restarts_;
  ++pending_;
  World::the().after(choices_.between(0, plan_.restart_pause),
                     [this, index = life.who.index] { start_again(index); });
}

void ElasticLauncher::take(Life& life, const std::string& packet) {
  const auto message =
      worker_message_from(as_bytes(Span<const char>(packet.data(), packet.size())));
  if (!message) return complain("a worker sent what is no message: " + packet);
  if (const auto* ready = std::get_if<Readiness>(&*message)) {
    life.round = 0;
    life.is_leaving = ready->leaves;
    if (life.process != nullptr && !life.process->ended()) on_place_(life, Place::left);
  }
  rendezvous_->take(life.who, *message, now());
  carry_out();
}

void ElasticLauncher::carry_out() {
  for (auto orders = rendezvous_->take_orders(); !orders.empty();
       orders = rendezvous_->take_orders()) {
    for (const RendezvousOrder& order : orders)
      std::visit([this](const auto& each) { carry_out(each); }, order);
  }
  wake_in_time();
}

void ElasticLauncher::carry_out(const Expulsion& order) {
  Life& life = last_of(order.who.index);
  life.is_expelled = true;
  life.is_dismissed = order.why.empty();
  World::the().note(text("expels ", life.process->name, ": ", order.why));
  if (!order.why.empty() && suspects_.count(order.who.index) == 0)
    complain(text("nothing ailed one that is expelled: ", order.why));
  World::the().after(choices_.between(0, kMillisecond),
                     [process = life.process] { World::the().kill(*process); });
}

void ElasticLauncher::carry_out(const RoundLetter& order) {
  Life& to = last_of(order.to.index);
  if (to.who.incarnation != order.to.incarnation) complain("a letter to a former process");
  if (const auto* round = std::get_if<Round>(&order.message)) note_round(*round, to);
  to.line->tell(to_json(order.message));
}

/// One of the letters that issue a round.
void ElasticLauncher::note_round(const Round& round, Life& to) {
  const auto [found, is_new] = rounds_.try_emplace(round.generation);
  IssuedRound& issued = found->second;
  if (is_new) note_new_round(round, issued);
  const bool fits = issued.number == round.number && round.members.size() == issued.members.size();
  if (!fits) return complain(text("two rounds have one generation, ", round.generation));
  if (issued.members[static_cast<std::size_t>(round.rank)] != &to)
    complain(text("round ", round.number, " has another process at rank ", round.rank));
  to.round = round.number;
  on_place_(to, round.members.back().holds ? Place::issued : Place::admitting);
}

void ElasticLauncher::note_new_round(const Round& round, IssuedRound& issued) {
  if (round.number <= last_number_) complain(text("round ", round.number, " is issued twice"));
  issued.number = last_number_ = round.number;
  for (const Round::Member& member : round.members) {
    for (int index = 0; index < plan_.workers; ++index)
      if (members_[static_cast<std::size_t>(index)].task == member.task)
        issued.members.push_back(&last_of(index));
  }
  if (!plan_.sees[static_cast<std::size_t>(issued.members.front()->who.index)])
    complain(text("round ", round.number, " is led by one that does not see the model directory"));
  for (const Life& life : lives_) {
    const bool lives = life.process != nullptr && !life.process->ended();
    if (lives && (life.round > 0 || (life.is_expelled && !life.is_dismissed) || life.is_leaving) &&
        !is_among(issued.members, life))
      complain(text("round ", round.number, " begins while ", life.process->name,
                    ", which is not in it, lives and has not left the former one"));
  }
}

void ElasticLauncher::carry_out(const RoundBegin& order) {
  joined_ += order.joined;
  if (round_due_ && World::the().now() > *round_due_)
    complain(text("round ", order.number, " begins late after a worker has stopped"));
  round_due_.reset();
  World::the().note(text("round ", order.number, ": ", order.workers, " workers, ", order.joined,
                         " of them new, after step ", order.step));
}

void ElasticLauncher::carry_out(const RoundVerdict& order) {
  World::the().note(text("verdict: ", order.cause));
  if (verdict_) complain("a second verdict: " + order.cause);
  verdict_ = order;
  // That are left, as far as anybody can know.
  const auto holds = [](const Life& life) {
    return life.holds && !life.is_gone && !life.is_expelled && !life.is_leaving;
  };
  const auto holders = std::count_if(lives_.begin(), lives_.end(), holds);
  bool is_right = false;
  switch (order.kind) {
    case RoundVerdict::Kind::state_lost:
      is_right = holders == 0;
      break;
    case RoundVerdict::Kind::no_chief:
      is_right = holders > 0 && std::none_of(lives_.begin(), lives_.end(), [&](const Life& life) {
                   return holds(life) && plan_.sees[static_cast<std::size_t>(life.who.index)];
                 });
      break;
    case RoundVerdict::Kind::too_few:
      is_right = holders < plan_.terms.min_workers;
      break;
    case RoundVerdict::Kind::no_progress:
      is_right = kills_ >= StepLosses::kMost || !suspects_.empty();
      break;
  }
  if (!is_right)
    complain(text(holders, " workers hold the state, but the verdict is: ", order.cause));
}

void ElasticLauncher::wake_in_time() {
  const std::uint64_t setting = ++timer_;
  const auto when = rendezvous_->wakes_at();
  if (!when) return;
  World::the().at(std::chrono::nanoseconds(when->time_since_epoch()).count(), [this, setting] {
    if (setting != timer_) return;
    rendezvous_->tick(now());
    carry_out();
  });
}

std::string ElasticLauncher::objection(const Life& life, const Cluster& cluster) const {
  const auto found = rounds_.find(cluster.generation);
  const auto rank = static_cast<std::size_t>(cluster.rank);
  const bool fits = found != rounds_.end() &&
                    found->second.members.size() == cluster.members.size() &&
                    found->second.members[rank] == &life;
  return fits ? ""
              : text("it is rank ", rank, " of a round of generation ", cluster.generation,
                     " that was not issued to it");
}

std::vector<int> ElasticLauncher::members_of(std::uint64_t generation) const {
  std::vector<int> numbers;
  for (const Life* life : rounds_.at(generation).members) numbers.push_back(life->number);
  return numbers;
}

void ElasticLauncher::complain(const std::string& what) {
  World::the().note("complains: " + what);
  if (violation_.empty()) violation_ = what;
}

}  // namespace troupe::simulation
