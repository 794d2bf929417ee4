// ReplicaThreads: the replicas of one worker at work at the same time, and the place where they
// meet. Free of LibTorch.
//
// Threads: replica 0 runs on the caller's thread, every other one on a thread of its own that lives
// as long as this object, so what LibTorch keeps per thread is made once. All state is guarded by
// one mutex. Who waits looks for a while whether `changes_` grows, and then sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::detail {

class ReplicaThreads {
 public:
  struct Options {
    int replicas = 1;
    int first = 0;  // replica 0's number among those of all workers, for messages
    std::chrono::milliseconds timeout{300'000};  // of one meeting
    std::chrono::microseconds spin{0};  // GroupOptions::arrival_spin; 0 where cores are shared
    std::function<void(int replica)> start_thread;  // called first on each; must not throw
  };

  /// Throws: EnvironmentError when the system gives no more threads.
  explicit ReplicaThreads(Options options);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  [[nodiscard]] int size() const { return options_.replicas; }

  /// Runs `work(replica)` for every replica and returns when all are done.
  /// Blocks: as long as the slowest replica; an error line names one that keeps the others waiting
  /// after a failure. Throws: what the lowest replica threw by itself; replicas that were let go
  /// from a meeting because of another's failure do not count.
  void run(const std::function<void(int)>& work);

  /// Inside run(), by every replica in the same order: waits until all are here. What a replica did
  /// before is seen by all after it. `where` says in messages what the meeting is for.
  /// Blocks: at most the timeout. Throws: PeerFailed with the reason when a replica has failed;
  /// DesyncError when one came to another meeting or ended its work; TimeoutError naming those that
  /// did not come.
  void meet(int replica, const std::string& where);

 private:
  /// Why replicas are let go from meetings, and those that come later, too.
  struct Failure {
    std::string cause;
    std::function<void()> raise;
    bool is_a_replicas;  // it failed by itself: the others only follow
  };

  void loop(int replica);
  void stop();
  void execute(int replica);
  template <class E>
  void fail(const E& error);
  void fail_with(int replica, const std::exception& error);
  void let_go(int replica);  // throws
  void wait_for_all(std::unique_lock<std::mutex>& lock);
  void announce();
  template <class Done>
  void spin(std::unique_lock<std::mutex>& lock, const Done& done);
  [[nodiscard]] std::string name(int replica) const;
  /// Replicas that are in a state, for messages: "replica 1", "replicas 1 and 2".
  enum class Where { working, meeting, ended };
  [[nodiscard]] std::string names(Where where) const;

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> changes_{0};  // counts what changed_ is told, for those that spin
  const std::function<void(int)>* work_ = nullptr;
  std::uint64_t run_ = 0;      // counts run()
  std::uint64_t meeting_ = 0;  // counts complete meetings
  int arrived_ = 0;            // at the present meeting
  int ended_ = 0;              // of the present run
  std::string meeting_for_;
  std::vector<Where> where_;                // by replica
  std::vector<std::exception_ptr> errors_;  // by replica, of the present run
  std::vector<char> let_go_;                // by replica: its error follows from another's
  std::optional<Failure> failure_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::detail
