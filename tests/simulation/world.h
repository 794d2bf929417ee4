// World: simulated processes and threads, the one clock they all read, and what happens when.
//
// Nothing happens but events, one after the other in the order of their times; what runs between
// two of them takes no time, but each look at the clock moves it a little. A thread that waits is
// paused (fiber.h) until it is woken or its time is over. Who runs when, comes from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "tests/simulation/fiber.h"
#include "tests/simulation/random.h"

namespace troupe::simulation {

/// Nanoseconds since the world began.
using Time = std::int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();
inline constexpr Time kMicrosecond = 1'000;
inline constexpr Time kMillisecond = 1'000'000;
inline constexpr Time kSecond = 1'000'000'000;

struct Process;

struct Thread {
  Thread(Process& of, std::function<void()> body) : process(of), fiber(std::move(body)) {}
  Process& process;
  Fiber fiber;
  bool is_scheduled = false;     // an event will resume it
  std::uint64_t turns = 0;       // how often it was resumed
  std::vector<Thread*> joiners;  // wait for its end
};

struct Process {
  int number = 0;
  std::string name;
  std::string host;  // its address
  bool dead = false;
  bool stopped = false;
  std::vector<Thread*> held;                     // would run if it were not stopped
  std::vector<std::unique_ptr<Thread>> threads;  // [0] is the main one
  Time slowness = 0;                             // what each of its turns may come late
  std::uint64_t calls = 0;                       // to the system, so far
  std::uint64_t strike_at_call = 0;              // 0: never
  std::function<void()> strike;                  // what happens to it there
  bool memory_is_full = false;                   // no more shared memory for it
  bool descriptors_are_out = false;              // it can accept nobody at present
  [[nodiscard]] bool ended() const { return dead || threads.front()->fiber.ended(); }
};

class World {
 public:
  /// One at a time.
  World(std::uint64_t seed, bool verbose);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// The one that there is.
  static World& the();
  /// Whether the caller is a thread of a simulated process.
  static bool is_inside() { return Fiber::running() != nullptr; }

  /// Events, from inside and outside.
  void at(Time when, std::function<void()> event);
  void after(Time delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  [[nodiscard]] Time now() const { return now_; }

  Process& start(const std::string& name, const std::string& host, std::function<void()> body);
  /// SIGKILL. Its threads do not run again; if one of them runs now, it has to be paused next.
  void kill(Process& process);
  /// SIGSTOP and SIGCONT.
  void stop(Process& process);
  void go_on(Process& process);
  [[nodiscard]] const std::vector<std::unique_ptr<Process>>& processes() const {
    return processes_;
  }

  // From inside.
  [[nodiscard]] Thread& present() const { return *present_; }
  [[nodiscard]] Process& process() const { return present_->process; }
  /// Another thread of the present process.
  Thread& spawn(std::function<void()> body);
  /// Waits to be woken, at most until `when`; may return for no reason.
  void wait(Time when);
  void wake(Thread& thread);
  [[nodiscard]] Time look_at_clock();
  /// Each call to the system begins here: what was to strike the process at this one does.
  void begin_call();

  /// Runs until every process has ended and `more` says that none will start, nothing is left to
  /// happen, or `limit`.
  void run(Time limit, const std::function<bool()>& more);
  /// The names of processes that have not ended.
  [[nodiscard]] std::string unfinished() const;
  /// Whether nothing is left to happen.
  [[nodiscard]] bool is_still() const { return events_.empty(); }

  /// Each event that the trace knows: its digest is equal for equal runs.
  void note(const char* what, std::uint64_t one = 0, std::uint64_t two = 0);
  void note(const std::string& text);
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  [[nodiscard]] bool verbose() const { return verbose_; }

  Random random;  // who runs when, and how long messages take
  Random nonces;  // what the processes draw
  std::map<const void*, std::vector<Thread*>> sleepers;  // on condition variables
  std::function<void(Process&)> on_death;                // its descriptors are to be closed

 private:
  struct Event {
    Time when;
    std::uint64_t order;
    std::function<void()> run;
  };
  struct Later {
    bool operator()(const Event& one, const Event& other) const {
      return one.when != other.when ? one.when > other.when : one.order > other.order;
    }
  };
  void schedule(Thread& thread, Time delay);
  void resume(Thread& thread);
  void mix(std::uint64_t value);

  Time now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<std::unique_ptr<Process>> processes_;
  Thread* present_ = nullptr;
  std::uint64_t digest_ = 0xCBF29CE484222325U;
  const bool verbose_;
};

}  // namespace troupe::simulation
