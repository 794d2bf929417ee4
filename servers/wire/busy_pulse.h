// BusyPulse: heartbeats of a thread that has no time for them, because it computes.
//
// A server answers, counts and computes on one thread. An update of a large shard may take longer
// than its workers' patience, and is no reason to take the server for lost.
// Thread rule: the owner's thread, beside the one inside.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe {

class BusyPulse {
 public:
  /// `beat` runs every `interval` during work, on a thread of its own: what it touches the owner
  /// does not touch meanwhile.
  BusyPulse(std::chrono::milliseconds interval, std::function<void()> beat);
  ~BusyPulse();
  BusyPulse(const BusyPulse&) = delete;
  BusyPulse& operator=(const BusyPulse&) = delete;

  /// Runs `work` on the calling thread and gives its result back. Not within another's work.
  template <class Work>
  decltype(auto) during(Work&& work) {
    const Busy busy(*this);
    return work();
  }

 private:
  /// Nobody beats once this is gone.
  class Busy {
   public:
    explicit Busy(BusyPulse& pulse) : pulse_(pulse) { pulse_.set(true); }
    ~Busy() { pulse_.set(false); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    BusyPulse& pulse_;
  };
  void set(bool busy);
  void run();

  const std::chrono::milliseconds interval_;
  const std::function<void()> beat_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe
