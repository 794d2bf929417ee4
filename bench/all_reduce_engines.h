// The engines that the all-reduce benchmark compares, all in one process: Troupe's group over every
// transport, c10d over Gloo, and what the machine can do at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/span.h"
#include "troupe/distributed/worker_group.h"

namespace troupe::bench {

/// Where a rank finds the others; bench/all_reduce.py fills it in.
struct AllReducePlace {
  int rank = 0;
  int ranks = 2;
  std::vector<std::uint16_t> ports;  // rank 0's, one for each of Troupe's groups
  std::vector<int> listen_fds;       // rank 0: their listening sockets; -1: it makes them
  std::string address;               // rank 0's; empty: this machine alone, over loopback
  std::string folder;                // for Gloo's store and a Unix socket
  std::size_t most_bytes = 0;        // of one call
};

struct Engine {
  enum class Kind { troupe, other, limit };  // a limit sums nothing
  std::string name;
  Kind kind = Kind::other;
  float* memory = nullptr;  // where its values lie, most_bytes of them
  std::function<void(Span<float>)> run;
};

class Engines {
 public:
  /// Meets the other ranks.  Collective: yes.  Throws: NetError, ConfigError; c10::Error.
  explicit Engines(const AllReducePlace& place);
  ~Engines();
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;

  [[nodiscard]] const std::vector<Engine>& all() const { return engines_; }
  /// Throws: ConfigError.
  [[nodiscard]] const Engine& named(const std::string& name) const;
  void barrier();
  /// Collective goodbye.
  void close();

  /// For one call; a healthy one takes a second at most.
  [[nodiscard]] static Deadline deadline();

 private:
  void add_groups(const AllReducePlace& place);
  void add_unsummed(WorkerGroup& group);
  void add_gloo(const AllReducePlace& place);
  void add_limits(const AllReducePlace& place);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::vector<Engine> engines_;
};

}  // namespace troupe::bench
