// Spinning: a thread looks at something again and again for a while before it sleeps. Waking up
// takes longer than most waits of a step, and several times as long on a virtual machine.
#pragma once

#include <chrono>
#include <thread>

namespace troupe {

/// A spinning thread keeps its core to itself for this long, twice what a message takes over
/// loopback; then it yields on every turn. Source: docs/performance.md.
inline constexpr std::chrono::microseconds kAloneSpin{10};

/// Tells the core that this thread spins.
inline void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks at `ready` until it holds or `limit` is over. Returns whether it holds.
template <class Ready>
bool spin_until(const Ready& ready, std::chrono::microseconds limit) {
  constexpr int kLooksPerClock = 64;
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (ready()) return true;
      pause_core();
    }
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= limit) return false;
    if (waited > kAloneSpin) std::this_thread::yield();  // who is waited for may need this core
  }
}

}  // namespace troupe
