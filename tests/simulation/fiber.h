// Fiber: a thread of a simulated process. All of them share the one real thread; each runs until it
// pauses.
//
// What belongs to a thread goes with the fiber: its stack, the exceptions that it is handling,
// errno and the thread-local variables of this program (not those of shared libraries), so that the
// code under test needs no other kind of variable.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::simulation {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  /// One that has not ended is forgotten where it stands: its stack is not unwound, as that of a
  /// killed process is not.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it pauses or ends. Not from inside a fiber.
  void resume();
  /// Back to who resumed the running fiber.
  static void pause();
  /// Null: none.
  [[nodiscard]] static Fiber* running();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  /// A thread's own, aside while another runs.
  struct Belongings {
    std::vector<std::byte> variables;  // thread-local
    void* exceptions = nullptr;        // __cxa_eh_globals
    unsigned uncaught = 0;
    int error = 0;  // errno
  };
  static void take_up(const Belongings& belongings);
  static void put_down(Belongings& belongings);
  void run();
  void swap_out();

  std::function<void()> body_;
  std::unique_ptr<boost::context::fiber> context_;
  boost::context::fiber outside_;
  Belongings own_;
  Belongings outer_;
  bool ended_ = false;
  // AddressSanitizer's idea of where the stacks are.
  void* own_shadow_ = nullptr;
  void* outer_shadow_ = nullptr;
  const void* outer_stack_ = nullptr;
  std::size_t outer_stack_bytes_ = 0;
  const void* stack_ = nullptr;
};

}  // namespace troupe::simulation
