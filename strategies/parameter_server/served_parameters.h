// ServedParameters: which tensors of a replica the parameter servers hold, and which rows of them
// are where. The same on every worker and server, since all make their models with the same hooks;
// and what else workers and servers of one job must agree on.
//
// Vocabulary: as strategies/parameter_server/wire/placement.h. A tensor's rows are its slices along
// axis 0; a scalar is one row.
#pragma once

#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/hooks/replica.h"
#include "troupe/strategies/parameter_server/wire/placement.h"

namespace troupe::detail {

struct ServedParameters {
  ServedModel model;
  std::vector<NamedTensor> tensors;         // the replica's own, by ServedTensor
  std::vector<std::vector<int>> shards_of;  // numbers of shards, by ServedTensor
  std::vector<std::string> optimizers;      // names, in the order of create_model
  PlaceOfTensor places;                     // in tensors

  /// The number of a parameter; -1: it is not served.
  [[nodiscard]] int number_of(const at::Tensor& parameter) const;
  /// "conv1.weight#3": a shard's name in messages and states.
  [[nodiscard]] std::string name_of(int shard) const;
  /// Bytes of all tensors that an optimiser owns: what a dense gradient of all takes.
  [[nodiscard]] std::int64_t trained_bytes() const;
};

/// Places the replica's parameters on `servers`. Those that no optimiser owns are handed out once
/// and never change; buffers are not served. Throws: ConfigError naming the optimiser or parameter
/// that servers cannot hold.
[[nodiscard]] ServedParameters serve(Replica& replica, const ServerOptions& options, int servers);

/// A shard's rows of its tensor, or of something of the same shape. A view.
[[nodiscard]] at::Tensor rows_of(const at::Tensor& tensor, const Shard& shard);

/// The terms that this process joins with. `replica` is one made by its hooks.
[[nodiscard]] JoinTerms terms_of(const StrategyOptions& options, const Replica& replica);

/// Throws: ConfigError for options that parameter servers do not do, or a cluster without servers.
void check_server_options(const StrategyOptions& options);

}  // namespace troupe::detail
