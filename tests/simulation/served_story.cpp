#include "tests/simulation/served_story.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>

#include "tests/simulation/descriptors.h"
#include "tests/simulation/network.h"
#include "tests/simulation/served_worker.h"
#include "tests/simulation/world.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

constexpr int kFirstServedPort = 3333;

class ServedStory {
 public:
  ServedStory(const ServedPlan& plan, bool verbose)
      : plan_(plan), world_(plan.seed, verbose), choices_(plan.seed + 1) {
    world_.on_death = [this](Process& process) { descriptors_.close_all_of(process); };
    network_.least_delay = plan.least_delay;
    network_.most_delay = plan.most_delay;
    network_.buffer_bytes = plan.buffer_bytes;
    cluster_.members.clear();
    for (int process = 0; process < count(); ++process) {
      const auto index = static_cast<std::size_t>(process);
      if (process < plan.workers)
        cluster_.members.push_back({plan.task(process), std::nullopt});
      else
        cluster_.servers.push_back(
            {plan.task(process),
             Endpoint{plan.hosts[index], static_cast<std::uint16_t>(kFirstServedPort + process)}});
    }
    cluster_.generation = 3;
    cluster_.origin = "the simulation";
  }

  Verdict tell() {
    for (int process = 0; process < count(); ++process) {
      ServedPart& part = add_part(process);
      world_.at(plan_.starts[static_cast<std::size_t>(process)], [this, &part] { start(part); });
    }
    if (plan_.is_timed) world_.at(plan_.delay, [this] { strike(); });
    world_.run(kEndOfTime, [this] { return pending_ > 0; });
    Verdict verdict;
    const std::string left = world_.unfinished();
    verdict.violation = left.empty()
                            ? judge()
                            : text(left, world_.is_still() ? " waits for ever" : " has not ended");
    verdict.has_struck = has_struck_;
    verdict.digest = world_.digest();
    verdict.all_succeeded =
        std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part.is_ok; });
    verdict.lasted = world_.now();
    return verdict;
  }

 private:
  [[nodiscard]] int count() const { return plan_.workers + plan_.servers; }
  [[nodiscard]] bool is_server(int process) const { return process >= plan_.workers; }
  [[nodiscard]] ServedPart& victim() { return parts_[static_cast<std::size_t>(plan_.victim)]; }

  ServedPart& add_part(int number) {
    parts_.emplace_back();
    parts_.back().number = number;
    ++pending_;
    return parts_.back();
  }

  void start(ServedPart& part) {
    --pending_;
    Cluster cluster = cluster_;
    if (is_server(part.number))
      cluster.server = part.number - plan_.workers;
    else
      cluster.rank = part.number;
    part.process = &world_.start(
        plan_.task(part.number) + (part.is_again ? " again" : ""),
        plan_.hosts[static_cast<std::size_t>(part.number)], [this, &part, cluster] {
          if (is_server(part.number)) return serve(plan_, cluster, part);
          train(plan_, cluster, part, [this, &part](std::int64_t step) { on_step(part, step); });
        });
  }

  void on_step(const ServedPart& part, std::int64_t step) {
    if (plan_.is_timed || part.number != plan_.victim || step != plan_.step || part.is_again)
      return;
    const bool is_signal = plan_.trouble == Trouble::kill || plan_.trouble == Trouble::restart ||
                           plan_.trouble == Trouble::long_stop;
    if (!is_signal) return world_.after(plan_.delay, [this] { strike(); });
    part.process->strike_at_call = part.process->calls + plan_.calls;
    part.process->strike = [this] { strike(); };
  }

  void strike() {
    Process* const process = victim().process;
    if (process == nullptr || process->ended()) return;
    before_begin_ = !parts_.front().has_begun;
    switch (plan_.trouble) {
      case Trouble::kill:
      case Trouble::restart:
        has_struck_ = true;
        world_.kill(*process);
        if (plan_.trouble == Trouble::restart) {
          ServedPart& again = add_part(plan_.victim);
          again.is_again = true;
          world_.after(plan_.duration, [this, &again] { start(again); });
        }
        return;
      case Trouble::short_stop:
      case Trouble::long_stop:
        has_struck_ = true;
        world_.stop(*process);
        return world_.after(plan_.duration, [this, process] { world_.go_on(*process); });
      case Trouble::slow:
        has_struck_ = true;
        process->slowness = plan_.duration;
        return;
      case Trouble::reset:
      case Trouble::half_reset:
      case Trouble::half_open:
        return strike_connection(process);
      default:
        return;
    }
  }

  void strike_connection(const Process* process) {
    std::vector<std::shared_ptr<Stream>> its;
    for (const auto& stream : network_.connections())
      if (stream->owner == process || stream->peer()->owner == process) its.push_back(stream);
    if (its.empty()) return;
    has_struck_ = true;
    const auto& struck = its[choices_.below(its.size())];
    between_ = {struck->owner->name, struck->peer()->owner->name};
    world_.note("strikes a connection of " + struck->owner->name + " and " +
                struck->peer()->owner->name);
    if (plan_.trouble == Trouble::half_open) {
      struck->is_dark = true;
      return;
    }
    if (plan_.trouble == Trouble::reset) struck->peer()->reset();
    struck->reset();
  }

  /// Whom the trouble befell, where it may end somebody.
  [[nodiscard]] std::set<std::string> culprits() const {
    const bool is_harmless = !has_struck_ || plan_.trouble == Trouble::short_stop ||
                             plan_.trouble == Trouble::slow || plan_.trouble == Trouble::none;
    if (is_harmless) return {};
    return between_.empty() ? std::set<std::string>{plan_.task(plan_.victim)} : between_;
  }

  /// A worker beside the chief that is lost when training has begun: the others go on. Of a
  /// connection that breaks its worker takes the server for lost, and that ends all.
  [[nodiscard]] std::string dispensable(const std::set<std::string>& culprits) const {
    if (before_begin_ || !between_.empty()) return "";
    for (int worker = 1; worker < plan_.workers; ++worker)
      if (culprits.count(plan_.task(worker)) > 0) return plan_.task(worker);
    return "";
  }

  std::string judge() {
    const std::set<std::string> culprits = this->culprits();
    const std::string lost = dispensable(culprits);
    for (const ServedPart& part : parts_) {
      if (part.process == nullptr) continue;
      const std::string& name = part.process->name;
      const std::string end = text(name, " ended with ", part.kind, ": ", part.cause);
      if (!part.violation.empty()) return text(name, ": ", part.violation);
      if (part.process->dead || part.is_ok) continue;
      if (part.kind == "unexpected" || part.kind == "internal") return end;
      if (culprits.empty()) return "nothing stood in the way of success, but " + end;
      if (part.is_again || culprits.count(plan_.task(part.number)) > 0) {
        if (lost.empty() || plan_.task(part.number) == lost || part.is_again) continue;
      }
      if (!lost.empty()) return text("without ", lost, " the others go on, but ", end);
      // Whom they wait for in vain may wait for the culprit itself.
      if (before_begin_ && part.kind == "rendezvous") continue;
      const bool names_one =
          std::any_of(culprits.begin(), culprits.end(), [&part](const std::string& culprit) {
            return part.cause.find(culprit) != std::string::npos;
          });
      if (!names_one) return "the culprit is not named: " + end;
    }
    return parts_.front().is_ok ? judge_counts(culprits) : "";
  }

  /// Every step of every worker is in the state once, on every server.
  std::string judge_counts(const std::set<std::string>& culprits) {
    const ServedPart& chief = parts_.front();
    if (chief.updates != plan_.last_step)
      return text("training ended after ", chief.updates, " updates of ", plan_.last_step);
    std::set<std::int64_t> all;
    std::size_t taken = 0;
    for (const ServedPart& part : parts_) {
      if (is_server(part.number) || part.is_again) continue;
      if (culprits.count(plan_.task(part.number)) > 0) continue;
      all.insert(part.numbers.begin(), part.numbers.end());
      taken += part.numbers.size();
      for (const auto& counts : chief.counts) {
        const float own = -counts[static_cast<std::size_t>(part.number)];
        if (own != static_cast<float>(part.numbers.size()))
          return text("the state has ", own, " steps of ", plan_.task(part.number), ", which took ",
                      part.numbers.size());
      }
    }
    const bool is_synchronous = plan_.pace.synchronous();
    if (!is_synchronous && all.size() != taken) return "a step was taken twice";
    if (!is_synchronous && culprits.empty() && taken != static_cast<std::size_t>(plan_.last_step))
      return text(taken, " steps were taken of ", plan_.last_step);
    return "";
  }

  const ServedPlan& plan_;
  World world_;
  Descriptors descriptors_;
  Network network_;
  Random choices_;
  Cluster cluster_;
  std::deque<ServedPart> parts_;  // of the first processes by number, then those started again
  std::set<std::string> between_;
  int pending_ = 0;
  bool has_struck_ = false;
  bool before_begin_ = false;
};

}  // namespace

Verdict tell(const ServedPlan& plan, bool verbose) {
  // It is never taken apart: some of its processes died with everything in their hands.
  auto* const story = new ServedStory(plan, verbose);  // NOLINT
  return story->tell();
}

}  // namespace troupe::simulation
