#include "tests/simulation/story.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "tests/simulation/descriptors.h"
#include "tests/simulation/judge.h"
#include "tests/simulation/network.h"
#include "tests/simulation/worker.h"
#include "tests/simulation/world.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

class Story {
 public:
  Story(const Plan& plan, bool verbose)
      : plan_(plan), world_(plan.seed, verbose), choices_(plan.seed + 1) {
    world_.on_death = [this](Process& process) { descriptors_.close_all_of(process); };
    network_.least_delay = plan.least_delay;
    network_.most_delay = plan.most_delay;
    network_.buffer_bytes = plan.buffer_bytes;
    const auto at = [&plan](int rank) { return plan.hosts[static_cast<std::size_t>(rank)]; };
    if (plan.detour > 0) network_.detour(at(plan.victim), at(0), plan.detour);
    if (plan.moment.kind == Moment::Kind::message)
      network_.on_message = [this](Stream& from) { on_message(from); };
  }

  Verdict tell() {
    for (int rank = 0; rank < plan_.workers; ++rank) {
      Part& part = add_part(rank, plan_.cluster.generation);
      if (rank == plan_.victim && plan_.trouble == Trouble::never) {
        has_struck_ = true;
        --pending_starts_;
        continue;
      }
      world_.at(plan_.starts[static_cast<std::size_t>(rank)], [this, &part] {
        is_next_start_ ? static_cast<void>(--pending_starts_) : start(part, "");
      });
    }
    if (plan_.moment.kind == Moment::Kind::time) {
      world_.at(plan_.moment.delay, [this] { strike(); });
    }
    world_.run(kEndOfTime, [this] { return pending_starts_ > 0; });
    if (const auto& ends = network_.flipped()) between_ = {ends->first->name, ends->second->name};
    if (plan_.trouble == Trouble::flipped_bit) has_struck_ = network_.flipped().has_value();
    Verdict verdict;
    const std::string left = world_.unfinished();
    if (!left.empty()) {
      verdict.violation =
          text(left, world_.is_still() ? " waits for ever" : " has not ended after ",
               world_.is_still() ? "" : text(kEndOfTime / kSecond, " s"));
    } else {
      verdict.violation = judge({plan_, parts_, has_struck_, struck_at_, between_});
    }
    verdict.has_struck = has_struck_;
    verdict.digest = world_.digest();
    verdict.all_succeeded = std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
      return part.process == nullptr || part.is_ok;
    });
    verdict.lasted = world_.now();
    return verdict;
  }

 private:
  Part& add_part(int rank, std::uint64_t generation) {
    parts_.emplace_back();
    Part& part = parts_.back();
    part.number = static_cast<int>(parts_.size()) - 1;
    part.rank = rank;
    part.generation = generation;
    ++pending_starts_;
    return part;
  }

  void start(Part& part, const std::string& what) {
    --pending_starts_;
    const auto rank = static_cast<std::size_t>(part.rank);
    const bool is_victim = part.number == plan_.victim;
    if (is_victim) {
      const bool is_its_own = plan_.trouble == Trouble::hang || plan_.trouble == Trouble::failure ||
                              plan_.trouble == Trouble::desync;
      if (is_its_own) {
        part.mischief = plan_.trouble;
        has_struck_ = true;
      }
    }
    part.process = &world_.start(
        plan_.cluster.members[rank].task + what, plan_.hosts[rank],
        [this, &part] { work(plan_, part, [this, &part](int deed) { on_deed(part, deed); }); });
    if (!is_victim) return;
    if (plan_.trouble == Trouble::no_memory) {
      part.process->memory_is_full = true;
      has_struck_ = true;
    }
    if (plan_.moment.kind == Moment::Kind::call) {
      part.process->strike_at_call = plan_.moment.call;
      part.process->strike = [this] { strike(); };
    }
  }

  void on_deed(const Part& part, int deed) {
    const Moment& moment = plan_.moment;
    if (moment.kind != Moment::Kind::deed || part.number != plan_.victim || deed != moment.deed) {
      return;
    }
    world_.after(moment.delay, [this] { strike(); });
  }

  void on_message(Stream& from) {
    const Process* const to = from.peer()->owner;
    const Process* const victim = parts_[static_cast<std::size_t>(plan_.victim)].process;
    if (to == nullptr || to != victim || from.owner == to) return;
    if (++messages_ != plan_.moment.message) return;
    under_ = from.peer()->shared_from_this();
    world_.after(0, [this] { strike(); });
  }

  void strike() {
    struck_at_ = world_.now();
    Part& part = parts_[static_cast<std::size_t>(plan_.victim)];
    Process* const victim = part.process;
    const std::string& here = plan_.hosts[static_cast<std::size_t>(plan_.victim)];
    const std::string& there = plan_.hosts[static_cast<std::size_t>(plan_.other)];
    const bool lives = victim != nullptr && !victim->ended();
    switch (plan_.trouble) {
      case Trouble::kill:
      case Trouble::power_loss:
      case Trouble::restart:
        if (!lives) return;
        if (plan_.trouble == Trouble::power_loss) network_.darken(here);
        world_.kill(*victim);
        has_struck_ = true;
        if (plan_.trouble == Trouble::restart)
          start_another(plan_.duration, plan_.cluster.generation, 7, " again");
        return;
      case Trouble::short_stop:
      case Trouble::long_stop:
        if (!lives) return;
        part.was_stopped = has_struck_ = true;
        world_.stop(*victim);
        world_.after(plan_.duration, [this, victim] { world_.go_on(*victim); });
        return;
      case Trouble::slow:
        if (!lives) return;
        has_struck_ = true;
        victim->slowness = plan_.duration;
        return;
      case Trouble::reset:
      case Trouble::half_reset:
      case Trouble::half_open:
        return strike_connection();
      case Trouble::cut_one_way:
        cut(here, there);
        return;
      case Trouble::cut_both_ways:
        cut(here, there);
        cut(there, here);
        return;
      case Trouble::isolated:
        for (const std::string& host : plan_.hosts) {
          if (host != here) cut(here, host), cut(host, here);
        }
        return;
      case Trouble::short_cut:
        cut(here, there);
        cut(there, here);
        world_.after(plan_.duration, [this] { network_.mend_all(); });
        return;
      case Trouble::flipped_bit:
        network_.flip_after(plan_.byte, static_cast<unsigned>(choices_.below(8)));
        return;
      case Trouble::no_descriptors:
        if (!lives) return;
        has_struck_ = true;
        victim->descriptors_are_out = true;
        world_.after(plan_.duration, [victim] { victim->descriptors_are_out = false; });
        return;
      case Trouble::stale:
        return start_another(0, plan_.cluster.generation - 1, 7, " of the start before");
      case Trouble::newer:
        return start_another(0, plan_.cluster.generation + 1, 7, " of the next start");
      case Trouble::wrong_secret:
        return start_another(0, plan_.cluster.generation, 8, " with another secret");
      case Trouble::twin:
        return start_another(0, plan_.cluster.generation, 7, "'s twin");
      case Trouble::next_start:
        return start_next();
      case Trouble::none:
      case Trouble::late:
      case Trouble::never:
      case Trouble::no_memory:
      case Trouble::hang:
      case Trouble::failure:
      case Trouble::desync:
        return;
    }
  }

  void start_another(Time delay, std::uint64_t generation, unsigned char secret,
                     const std::string& what) {
    has_struck_ = true;
    Part& part = add_part(plan_.victim, generation);
    part.secret = secret;
    world_.after(delay, [this, &part, what] { start(part, what); });
  }

  // The victim is left over, stopped; the others are killed, and all are started once more.
  void start_next() {
    has_struck_ = is_next_start_ = true;
    for (int rank = 0; rank < plan_.workers; ++rank) {
      Part& part = parts_[static_cast<std::size_t>(rank)];
      if (part.process == nullptr) continue;  // nor will it be: it comes to the next start
      if (rank != plan_.victim) {
        world_.kill(*part.process);
        continue;
      }
      part.was_stopped = true;
      world_.stop(*part.process);
      world_.after(choices_.between(0, 6 * kSecond),
                   [this, process = part.process] { world_.go_on(*process); });
    }
    for (int rank = 0; rank < plan_.workers; ++rank) {
      Part& part = add_part(rank, plan_.cluster.generation + 1);
      world_.after(choices_.between(0, plan_.duration),
                   [this, &part] { start(part, " of the next start"); });
    }
  }

  void strike_connection() {
    const auto all = network_.connections();
    const Process* const victim = parts_[static_cast<std::size_t>(plan_.victim)].process;
    std::vector<std::shared_ptr<Stream>> its;
    for (const auto& stream : all) {
      if (stream->owner == victim || stream->peer()->owner == victim) its.push_back(stream);
    }
    if (its.empty()) return;
    const auto& struck = under_ ? under_ : its[choices_.below(its.size())];
    if (!struck->is_open || !struck->peer()->is_open) return;
    has_struck_ = true;
    between_ = {struck->owner->name, struck->peer()->owner->name};
    world_.note(text("strikes a connection of ", struck->owner->name, " and ",
                     struck->peer()->owner->name));
    if (plan_.trouble == Trouble::half_open) {
      struck->is_dark = true;
      return;
    }
    if (plan_.trouble == Trouble::reset) struck->peer()->reset();
    struck->reset();
  }

  void cut(const std::string& from, const std::string& to) {
    has_struck_ = true;
    world_.note(text("cuts ", from, " to ", to));
    network_.cut(from, to);
  }

  const Plan& plan_;
  World world_;
  Descriptors descriptors_;
  Network network_;
  Random choices_;
  std::deque<Part> parts_;
  int pending_starts_ = 0;
  int messages_ = 0;               // to the victim
  std::shared_ptr<Stream> under_;  // whose message it was
  Time struck_at_ = 0;
  bool has_struck_ = false;
  bool is_next_start_ = false;
  std::set<std::string> between_;
};

}  // namespace

Verdict tell(const Plan& plan, bool verbose) {
  // It is never taken apart: some of its processes died with everything in their hands.
  auto* const story = new Story(plan, verbose);  // NOLINT
  return story->tell();
}

}  // namespace troupe::simulation
