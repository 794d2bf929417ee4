#include "tests/simulation/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

World* g_world = nullptr;

constexpr Time kLook = 30;  // what a look at the clock takes
constexpr Time kLongestWaking = 20 * kMicrosecond;

}  // namespace

World::World(std::uint64_t seed, bool verbose)
    : random(seed), nonces(seed ^ 0x5DEECE66DU), verbose_(verbose) {
  g_world = this;
}

World::~World() { g_world = nullptr; }

World& World::the() { return *g_world; }

void World::at(Time when, std::function<void()> event) {
  events_.push({std::max(when, now_), ++order_, std::move(event)});
}

Process& World::start(const std::string& name, const std::string& host,
                      std::function<void()> body) {
  processes_.push_back(std::make_unique<Process>());
  Process& made = *processes_.back();
  made.number = static_cast<int>(processes_.size());
  made.name = name;
  made.host = host;
  made.threads.push_back(std::make_unique<Thread>(made, std::move(body)));
  note(text("starts ", name));
  schedule(*made.threads.front(), 0);
  return made;
}

void World::kill(Process& process) {
  if (process.ended()) return;
  note(text("kills ", process.name));
  process.dead = true;
  if (on_death) on_death(process);
}

void World::stop(Process& process) {
  if (process.ended()) return;
  process.stopped = true;
  note(text("stops ", process.name));
}

void World::go_on(Process& process) {
  if (!std::exchange(process.stopped, false)) return;
  note(text("continues ", process.name));
  for (Thread* thread : std::exchange(process.held, {})) {
    thread->is_scheduled = false;
    schedule(*thread, 0);
  }
}

Thread& World::spawn(std::function<void()> body) {
  auto& threads = process().threads;
  threads.push_back(std::make_unique<Thread>(process(), std::move(body)));
  schedule(*threads.back(), 0);
  return *threads.back();
}

void World::schedule(Thread& thread, Time delay) {
  if (std::exchange(thread.is_scheduled, true)) return;
  const Time late = random.between(0, kLongestWaking) +
                    (thread.process.slowness > 0 ? random.between(0, thread.process.slowness) : 0);
  after(delay + late, [this, &thread] { resume(thread); });
}

void World::resume(Thread& thread) {
  if (thread.process.dead) return;
  if (thread.process.stopped) {
    thread.process.held.push_back(&thread);
    return;
  }
  thread.is_scheduled = false;
  ++thread.turns;
  present_ = &thread;
  note("runs", static_cast<std::uint64_t>(thread.process.number));
  if (verbose_) configure_log(LogLevel::debug, thread.process.name);
  thread.fiber.resume();
  present_ = nullptr;
  if (!thread.fiber.ended()) return;
  for (Thread* joiner : std::exchange(thread.joiners, {})) wake(*joiner);
}

void World::wait(Time when) {
  Thread& me = present();
  if (when != kNever) {
    at(when, [this, &me, turn = me.turns] {
      if (me.turns == turn) wake(me);
    });
  }
  Fiber::pause();
}

void World::wake(Thread& thread) {
  if (!thread.process.dead && !thread.fiber.ended()) schedule(thread, 0);
}

Time World::look_at_clock() { return now_ += kLook; }

void World::begin_call() {
  Process& mine = process();
  if (++mine.calls != mine.strike_at_call) return;
  mine.strike();
  if (mine.stopped) {
    present().is_scheduled = true;
    mine.held.push_back(&present());
  }
  if (mine.dead || mine.stopped) Fiber::pause();  // the dead for ever
}

void World::run(Time limit, const std::function<bool()>& more) {
  const auto all_ended = [this] {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->ended(); });
  };
  while (more() || !all_ended()) {
    if (events_.empty() || events_.top().when > limit) return;
    const Event next = events_.top();
    events_.pop();
    now_ = std::max(now_, next.when);
    next.run();
  }
}

std::string World::unfinished() const {
  std::vector<std::string> names;
  for (const auto& process : processes_) {
    if (!process->ended()) names.push_back(process->name);
  }
  return join(names);
}

void World::mix(std::uint64_t value) {
  digest_ = (digest_ ^ value) * 0x9E3779B97F4A7C15U;
  digest_ ^= digest_ >> 32U;
}

void World::note(const char* what, std::uint64_t one, std::uint64_t two) {
  mix(static_cast<std::uint64_t>(now_));
  for (const char* c = what; *c != '\0'; ++c) mix(static_cast<unsigned char>(*c));
  mix(one);
  mix(two);
}

void World::note(const std::string& text) {
  note(text.c_str());
  if (verbose_) {
    std::fprintf(stderr, "%12.6f s  %s\n", static_cast<double>(now_) / kSecond, text.c_str());
  }
}

}  // namespace troupe::simulation
