#include "tests/simulation/elastic_story.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/simulation/descriptors.h"
#include "tests/simulation/elastic_launcher.h"
#include "tests/simulation/elastic_worker.h"
#include "tests/simulation/network.h"
#include "tests/simulation/world.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

// Nothing in these groups may take longer.
constexpr Time kEndOfElasticTime = 600 * kSecond;
// Where workers are killed, and nothing else is wrong: s from a round to the next.
constexpr double kLongestStandstill = 3;
// From a stop to the next round: the heartbeat limit, and this.
constexpr Time kMoreThanSilence = kSecond;

class ElasticStory {
 public:
  ElasticStory(const ElasticPlan& plan, bool verbose)
      : plan_(plan),
        world_(plan.seed, verbose),
        choices_(plan.seed + 1),
        witness_{[this](Life& life, Place place) { pass(life, place); },
                 [this](const Life& life, const Cluster& cluster) {
                   return launcher_.objection(life, cluster);
                 },
                 [this](std::uint64_t generation) { return launcher_.members_of(generation); },
                 [this](int record, bool again) { return take_record(record, again); }},
        launcher_(
            plan,
            [this](Life& life, const Cluster& cluster, int line) {
              train(plan_, life, cluster, line, witness_);
            },
            witness_.on_place) {
    world_.on_death = [this](Process& process) {
      descriptors_.close_all_of(process);
      launcher_.on_death(process);
    };
    network_.least_delay = plan.least_delay;
    network_.most_delay = plan.most_delay;
    network_.buffer_bytes = plan.buffer_bytes;
  }

  Verdict tell() {
    launcher_.start_all();
    for (const Strike& strike : plan_.strikes) {
      if (!strike.is_timed) continue;
      come_.insert(&strike);
      world_.at(strike.delay, [this, &strike] { hit(strike); });
    }
    world_.run(kEndOfElasticTime, [this] { return launcher_.is_busy(); });
    Verdict verdict;
    const std::string left = world_.unfinished();
    verdict.violation = launcher_.violation();
    if (verdict.violation.empty() && !left.empty())
      verdict.violation = text(left, world_.is_still() ? " waits for ever" : " has not ended");
    if (verdict.violation.empty()) verdict.violation = judge();
    verdict.has_struck = has_struck_;
    verdict.digest = world_.digest();
    verdict.all_succeeded = has_end_;
    verdict.lasted = world_.now();
    verdict.rounds = launcher_.rounds();
    verdict.joined = launcher_.joined();
    return verdict;
  }

 private:
  void pass(Life& life, Place place) {
    for (const Strike& strike : plan_.strikes) {
      const bool has_steps = place >= Place::before && place <= Place::voted;
      const bool is_here = strike.place == place && strike.victim == life.who.index &&
                           strike.incarnation == life.who.incarnation &&
                           (!has_steps || life.step >= strike.step);
      if (!is_here || !come_.insert(&strike).second) continue;
      Process& process = *life.process;
      if (!is_signal(strike.trouble) || process.strike_at_call > process.calls) {
        world_.after(strike.delay, [this, &strike] { hit(strike); });
      } else {
        process.strike_at_call = process.calls + strike.calls;
        process.strike = [this, &strike] { hit(strike); };
      }
    }
  }

  std::string take_record(int record, bool again) {
    if (again && record <= told_) return "";  // it looks, and finds it there
    if (record != told_ + 1) return text("tells record ", record, " after record ", told_);
    told_ = record;
    return "";
  }

  void hit(const Strike& strike) {
    const std::string& here = plan_.hosts[static_cast<std::size_t>(strike.victim)];
    const std::string& there = plan_.hosts[static_cast<std::size_t>(strike.other)];
    switch (strike.trouble) {
      case Trouble::kill:
      case Trouble::short_stop:
      case Trouble::long_stop:
        signal(strike, strike.victim);
        if (strike.is_double) signal(strike, strike.other);
        return;
      case Trouble::slow:
        if (const Life* life = launcher_.present(strike.victim)) {
          suspect(strike.victim);
          life->process->slowness = strike.duration;
        }
        return;
      case Trouble::cut_one_way:
        return cut(strike, here, there);
      case Trouble::cut_both_ways:
      case Trouble::short_cut:
        cut(strike, here, there);
        return cut(strike, there, here);
      default:
        return strike_connection(strike);
    }
  }

  void suspect(int index) {
    has_struck_ = true;
    launcher_.suspect(index);
  }

  void signal(const Strike& strike, int index) {
    const Life* const life = launcher_.present(index);
    if (life == nullptr) return;
    has_struck_ = true;
    if (strike.trouble == Trouble::kill) {
      launcher_.count_kill();
      return world_.kill(*life->process);
    }
    suspect(index);
    const bool is_alone = plan_.strikes.size() == 1 && !strike.is_double &&
                          plan_.farewells.empty() && plan_.terms.min_workers < plan_.workers;
    if (is_alone && strike.trouble == Trouble::long_stop)
      launcher_.expect_round_by(world_.now() + kMoreThanSilence +
                                std::chrono::nanoseconds(plan_.options.heartbeat_timeout).count());
    world_.stop(*life->process);
    world_.after(strike.duration, [this, process = life->process] { world_.go_on(*process); });
  }

  void cut(const Strike& strike, const std::string& from, const std::string& to) {
    suspect(strike.victim);
    suspect(strike.other);
    world_.note(text("cuts ", from, " to ", to));
    network_.cut(from, to);
    if (strike.duration != kNever)
      world_.after(strike.duration, [this, from, to] { network_.mend(from, to); });
  }

  void strike_connection(const Strike& strike) {
    const Life* const life = launcher_.present(strike.victim);
    if (life == nullptr) return;
    std::vector<std::shared_ptr<Stream>> its;
    for (const auto& stream : network_.connections()) {
      if (stream->owner == life->process || stream->peer()->owner == life->process)
        its.push_back(stream);
    }
    if (its.empty()) return;
    const auto& struck = its[choices_.below(its.size())];
    for (const Life& each : launcher_.lives()) {
      if (each.process == struck->owner || each.process == struck->peer()->owner)
        suspect(each.who.index);
    }
    world_.note(text(name_of(strike.trouble), " of a connection of ", struck->owner->name, " and ",
                     struck->peer()->owner->name));
    if (strike.trouble == Trouble::half_open) {
      struck->is_dark = true;
      return;
    }
    if (strike.trouble == Trouble::reset) struck->peer()->reset();
    struck->reset();
  }

  std::string judge() {
    const bool only_kills =
        std::all_of(plan_.strikes.begin(), plan_.strikes.end(),
                    [](const Strike& strike) { return strike.trouble == Trouble::kill; });
    const auto& verdict = launcher_.verdict();
    const bool was_too_few = verdict && verdict->kind == RoundVerdict::Kind::too_few;
    for (const Life& life : launcher_.lives()) {
      if (life.process == nullptr) continue;
      const std::string& name = life.process->name;
      if (!life.violation.empty()) return text(name, ": ", life.violation);
      if (only_kills && !was_too_few && life.stood_still > kLongestStandstill)
        return text(name, " stood still for ", life.stood_still, " s because of a kill");
      if ((life.is_done || life.has_saved) && told_ < life.step * kRecordsOfStep)
        return text(name, " ends after step ", life.step, ", and record ", told_ + 1,
                    " is not told");
      if (life.process->dead) continue;
      has_end_ = has_end_ || (life.has_saved && life.kind == "stopped");
      if (life.kind == "stopped" && !plan_.farewells.empty()) continue;
      // Who cannot be the chief is not needed by those that save.
      const bool saves = plan_.sees[static_cast<std::size_t>(life.who.index)];
      const bool is_unsaved =
          was_too_few && life.holds && life.kind == "peer-lost" && !life.has_saved && saves;
      if (is_unsaved) return text(name, " ended without having saved: ", life.cause);
      const bool is_at_end = life.step == plan_.steps;
      has_end_ = has_end_ || life.is_done;
      if (life.is_done && !is_at_end) return text(name, " is done after step ", life.step);
      if (life.found_nothing && life.holds && !is_at_end)
        return text(name, " finds nothing left to do after step ", life.step);
      const bool is_broken = life.kind == "unexpected" || life.kind == "internal";
      const bool may_fail = launcher_.has_failed_to_start() || launcher_.verdict();
      const bool had_started = life.holds || life.who.incarnation > 0;
      if (!life.kind.empty() && (is_broken || (had_started && !may_fail)))
        return text(name, " ended with ", life.kind, ": ", life.cause);
    }
    const bool may_fail = launcher_.has_failed_to_start() || launcher_.verdict();
    return has_end_ || may_fail ? "" : "no worker saw the end, and there is no verdict";
  }

  const ElasticPlan& plan_;
  World world_;
  Descriptors descriptors_;
  Network network_;
  Random choices_;
  const Witness witness_;
  ElasticLauncher launcher_;
  std::set<const Strike*> come_;
  int told_ = 0;  // the last record of the file, which has those before it in order
  bool has_struck_ = false;
  bool has_end_ = false;
};

}  // namespace

Verdict tell(const ElasticPlan& plan, bool verbose) {
  // It is never taken apart: some of its processes died with everything in their hands.
  auto* const story = new ElasticStory(plan, verbose);  // NOLINT
  return story->tell();
}

}  // namespace troupe::simulation
