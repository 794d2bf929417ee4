// ServerExchange: what a worker sends to the parameter servers and takes from them, as tensors of
// its first replica.
//
// Threads: the thread that runs replica 0, which is the training thread.
#pragma once

#include <set>
#include <string>

#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/parameter_server/served_parameters.h"
#include "troupe/strategies/parameter_server/wire/server_client.h"

namespace troupe::detail {

class ServerExchange {
 public:
  /// Before the first of the other functions: whose tensors these are, and the way to the servers.
  /// Both outlive this object.
  void attach(const ServedParameters& served, ServerClient& client);

  /// Before each step: the examples of this worker, and those that its losses are divided by.
  void begin_batch(std::int64_t examples, std::int64_t global_examples);
  /// Before a push: what the sum of all workers' gradients is to be divided by in place of examples
  /// is, of this worker, `weight`.
  void set_weight(double weight) { weight_ = weight; }

  /// Pushes the gradients of one optimiser's parameters: the rows of sparse ones, if its step
  /// changes no others, all of the rest. Sparse gradients are expected coalesced.
  /// Throws: ConfigError where the first update of a synchronous job finds no worker's gradient.
  void push(const std::string& name, torch::optim::Optimizer& optimizer);

  /// Writes values that came into the replica's parameters.
  void install(const RowBlock& block) const;

 private:
  void warn_of_dense(const std::string& optimizer, int tensor);

  const ServedParameters* served_ = nullptr;
  ServerClient* client_ = nullptr;
  double weight_ = 0;
  double divisor_ = 0;
  std::set<std::string> pushed_;  // optimisers
  bool warned_ = false;
};

}  // namespace troupe::detail
