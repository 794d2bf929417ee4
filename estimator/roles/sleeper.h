// Sleeper: how a role waits, so that tests need no sleep.
#pragma once

#include "core/clock.h"

namespace troupe {

class Sleeper {
 public:
  virtual ~Sleeper() = default;
  virtual void sleep(Seconds duration) = 0;
};

/// The thread really waits.
class ThreadSleeper final : public Sleeper {
 public:
  void sleep(Seconds duration) override;
};

}  // namespace troupe
