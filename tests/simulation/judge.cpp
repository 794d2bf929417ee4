#include "tests/simulation/judge.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <vector>

#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

// Beside messages' way, for those that notice silence to be done with what they were at.
constexpr Time kNoticedWithin = 350 * kMillisecond;

const std::string& task_of(const Plan& plan, int rank) {
  return plan.cluster.members[static_cast<std::size_t>(rank)].task;
}

std::set<std::string> tasks_in(const std::string& sentence, const Plan& plan) {
  std::set<std::string> found;
  for (const Member& member : plan.cluster.members) {
    for (std::size_t at = sentence.find(member.task); at != std::string::npos;
         at = sentence.find(member.task, at + 1)) {
      const std::size_t end = at + member.task.size();
      const bool goes_on = end < sentence.size() && std::isdigit(sentence[end]) != 0;
      if (!goes_on) found.insert(member.task);
    }
  }
  return found;
}

std::string after(const std::string& sentence, const std::string& words) {
  const std::size_t at = sentence.find(words);
  return at == std::string::npos ? "" : sentence.substr(at + words.size());
}

std::string before(const std::string& sentence, const std::string& words) {
  return sentence.substr(0, sentence.find(words));
}

bool has(const std::string& sentence, const std::string& words) {
  return sentence.find(words) != std::string::npos;
}

// Of "worker/1 (at #2), worker/2 (at #1)" the one that is at fault: the others may wait for it.
std::set<std::string> farthest_behind(const std::string& list, const Plan& plan) {
  std::set<std::string> found;
  unsigned long least = std::numeric_limits<unsigned long>::max();
  for (const Member& member : plan.cluster.members) {
    const std::string rest = after(list, member.task + " (at #");
    if (rest.empty()) continue;
    const unsigned long at = std::stoul(rest);
    if (at < least) found.clear();
    if (at <= least) found.insert(member.task);
    least = std::min(least, at);
  }
  return found;
}

/// Who may be named, and whose own end says nothing about the group.
struct Expectation {
  bool must_succeed = false;
  std::set<std::string> suspects;  // empty: anybody
  std::set<int> excused;           // numbers of processes
  bool all_are_suspects = true;    // false: one of those who are named has to be
  bool must_agree = true;
  bool may_fail_to_start = false;
};

Expectation expectation_of(const Facts& facts) {
  const Plan& plan = facts.plan;
  const std::string& victim = task_of(plan, plan.victim);
  const std::string& other = task_of(plan, plan.other);
  const bool touches_chief = plan.victim == 0 || plan.other == 0;
  Expectation expected;
  if (!facts.has_struck) {
    expected.must_succeed = true;
    return expected;
  }
  switch (plan.trouble) {
    case Trouble::none:
    case Trouble::slow:
    case Trouble::short_stop:
    case Trouble::short_cut:
    case Trouble::late:
    case Trouble::stale:
    case Trouble::newer:
    case Trouble::wrong_secret:
      expected.must_succeed = true;
      break;
    case Trouble::twin:
      expected.must_succeed = true;  // one of the two
      expected.excused = {plan.victim, plan.workers};
      break;
    case Trouble::no_descriptors:
      // A Unix socket's listener gives up: TCP is used instead, where it may be.
      expected.must_succeed = plan.options.transport == Transport::automatic ||
                              plan.options.transport == Transport::tcp;
      break;
    case Trouble::no_memory:
      expected.must_succeed = plan.options.transport != Transport::shared_memory;
      expected.suspects = {victim};
      break;
    case Trouble::kill:
    case Trouble::power_loss:
    case Trouble::never:
    case Trouble::hang:
    case Trouble::failure:
      expected.suspects = {victim};
      expected.excused = {plan.victim};
      break;
    case Trouble::long_stop:
    case Trouble::isolated:
      expected.suspects = {victim};
      expected.excused = {plan.victim};
      // What is left of the start after a stop may be too short for anybody.
      expected.may_fail_to_start = plan.trouble == Trouble::long_stop;
      break;
    case Trouble::reset:
    case Trouble::half_reset:
      expected.suspects = facts.between;
      expected.all_are_suspects = false;  // one of them may end, and its links with it
      expected.must_agree = false;        // each end may name the other
      break;
    case Trouble::half_open:
      // Who waits for who waits for it may be the first to complain.
      if (facts.between.count(task_of(plan, 0)) > 0) expected.suspects = {};
      expected.must_agree = false;
      break;
    case Trouble::cut_one_way:
    case Trouble::cut_both_ways:
      if (touches_chief) expected.suspects = {victim, other};
      expected.all_are_suspects = false;
      expected.must_agree = false;
      break;
    case Trouble::flipped_bit:
      expected.suspects = facts.between;
      expected.must_agree = false;
      break;
    case Trouble::desync:
      expected.must_agree = true;
      break;
    case Trouble::restart:
      expected.suspects = {victim};
      expected.excused = {plan.victim, plan.workers};
      break;
    case Trouble::next_start:
      for (int number = 0; number < plan.workers; ++number) expected.excused.insert(number);
      expected.must_succeed = true;
      break;
  }
  return expected;
}

std::string in_words(const Part& part) {
  return text(part.process == nullptr ? std::string("nobody") : part.process->name, " ended with ",
              part.kind, ": ", part.cause);
}

/// What is noticed by itself is noticed soon.
std::string judge_time(const Part& part, const Facts& facts) {
  const Plan& plan = facts.plan;
  const bool is_reset = plan.trouble == Trouble::reset || plan.trouble == Trouble::half_reset;
  if (is_reset && has(part.cause, "the group did not form"))
    return text("a broken connection is missed by nobody until the start is over: ",
                in_words(part));
  if (plan.trouble != Trouble::long_stop || !has(part.cause, "no heartbeat for ")) return "";
  const Time limit = std::chrono::nanoseconds(plan.options.heartbeat_timeout).count();
  const Time late = part.ended - facts.struck_at - limit;
  if (late <= kNoticedWithin + 6 * plan.most_delay) return "";
  return text("a silent worker is missed ", static_cast<double>(late) / kSecond,
              " s after the limit: ", in_words(part));
}

std::string judge_one(const Part& part, const Expectation& expected, const Facts& facts) {
  const std::string& name = part.process->name;
  if (!part.violation.empty()) return text(name, ": ", part.violation);
  if (part.kind == "unexpected" || part.kind == "internal") return in_words(part);
  const bool is_intruder = part.generation != facts.plan.cluster.generation || part.secret != 7;
  const bool is_next =
      facts.plan.trouble == Trouble::next_start && part.number >= facts.plan.workers;
  if (is_intruder && !is_next) {
    return part.has_joined ? text(name, " joined a group that is not its own") : "";
  }
  if (part.process->dead || expected.excused.count(part.number) > 0) return "";
  if (part.is_ok) return "";
  if (expected.must_succeed)
    return text("nothing stood in the way of success, but ", in_words(part));
  const std::string when = judge_time(part, facts);
  if (!when.empty()) return when;
  const std::set<std::string> culprits = culprits_in(part, facts.plan);
  if (expected.may_fail_to_start && part.kind == "rendezvous") return "";
  if (culprits.empty()) return text("nobody is named: ", in_words(part));
  const auto is_suspect = [&](const std::string& task) {
    return expected.suspects.count(task) > 0;
  };
  // Whoever the group waited for at its start may be named beside the one that it lacked.
  const bool all = expected.all_are_suspects && part.kind != "rendezvous";
  const bool fits = expected.suspects.empty() ||
                    (all ? std::all_of(culprits.begin(), culprits.end(), is_suspect)
                         : std::any_of(culprits.begin(), culprits.end(), is_suspect));
  if (!fits) return text("the wrong worker is named: ", in_words(part));
  // Two who wait for each other's messages, and send each other none, see no difference: then a
  // timeout ends it, which does not know better than who was waiting for whom.
  const std::string& victim = task_of(facts.plan, facts.plan.victim);
  const bool is_there = tasks_in(part.cause, facts.plan).count(victim) > 0;
  if (facts.plan.trouble == Trouble::desync && part.kind != "timeout" && !is_there) {
    return text("the worker that left the others is not named: ", in_words(part));
  }
  return "";
}

// All who came as far came to the same.
std::string compare(const Facts& facts, const Expectation& expected) {
  std::map<std::uint64_t, const Part*> groups;  // by generation
  const Part* blamer = nullptr;
  for (const Part& part : facts.parts) {
    if (part.process == nullptr) continue;
    if (!part.group.empty()) {
      const Part*& known = groups.emplace(part.generation, &part).first->second;
      if (known->group != part.group) {
        return text(known->process->name, " and ", part.process->name,
                    " of one generation are in two groups");
      }
      const std::size_t common = std::min(known->results.size(), part.results.size());
      if (!std::equal(part.results.begin(),
                      part.results.begin() + static_cast<std::ptrdiff_t>(common),
                      known->results.begin())) {
        return text(known->process->name, " and ", part.process->name, " have other results");
      }
      if (part.results.size() > known->results.size()) known = &part;
    }
    const bool counts = expected.must_agree && part.has_joined && !part.is_ok &&
                        !part.process->dead && expected.excused.count(part.number) == 0;
    if (!counts) continue;
    if (blamer != nullptr && culprits_in(*blamer, facts.plan) != culprits_in(part, facts.plan)) {
      return text("they name others: ", in_words(*blamer), " But ", in_words(part));
    }
    blamer = &part;
  }
  return "";
}

std::string judge_twins(const Facts& facts) {
  const Part& first = facts.parts[static_cast<std::size_t>(facts.plan.victim)];
  const Part& second = facts.parts[static_cast<std::size_t>(facts.plan.workers)];
  if (first.has_joined && second.has_joined) return "both processes of one task joined";
  if (!first.is_ok && !second.is_ok)
    return text("neither twin succeeded: ", in_words(first), " And ", in_words(second));
  return "";
}

}  // namespace

std::set<std::string> culprits_in(const Part& part, const Plan& plan) {
  std::string cause = part.cause;
  if (has(cause, "was expelled from the group: ")) {
    cause = after(cause, "was expelled from the group: ");
  }
  cause = before(cause, text(" ", task_of(plan, part.rank), " was in "));
  if (has(cause, "could not join the chief")) return {task_of(plan, 0)};
  if (has(cause, "the group did not form")) return tasks_in(after(cause, "): "), plan);
  if (has(cause, "the group did not close")) return tasks_in(after(cause, " s: "), plan);
  if (has(cause, "the link between ")) return tasks_in(before(cause, " is lost"), plan);
  if (has(cause, "the link from ")) return tasks_in(before(cause, " delivered"), plan);
  if (has(cause, " is gone: ")) return tasks_in(before(cause, " is gone: "), plan);
  if (has(cause, " failed: ")) return tasks_in(before(cause, " failed: "), plan);
  if (has(cause, "Not yet in collective")) {
    return farthest_behind(after(cause, "Not yet in collective"), plan);
  }
  for (const char* const words : {" still waits for ", " could not send all to "}) {
    if (has(cause, words)) return tasks_in(after(cause, words), plan);
  }
  return tasks_in(cause, plan);
}

std::string judge(const Facts& facts) {
  const Expectation expected = expectation_of(facts);
  for (const Part& part : facts.parts) {
    if (part.process == nullptr) continue;
    const std::string violation = judge_one(part, expected, facts);
    if (!violation.empty()) return violation;
  }
  if (facts.plan.trouble == Trouble::twin && facts.has_struck) {
    const std::string violation = judge_twins(facts);
    if (!violation.empty()) return violation;
  }
  return compare(facts, expected);
}

}  // namespace troupe::simulation
