// TensorStore: one server's shards, stepped by the optimisers that the user's create_model makes.
//
// Every shard is a leaf tensor of its own, a copy of rows of the model's parameter, in the same
// parameter group of the same optimiser. Optimisers whose step is element by element take the steps
// of one device that way, whatever the number of servers.
#pragma once

#include <vector>

#include "troupe/strategies/parameter_server/served_parameters.h"
#include "troupe/strategies/parameter_server/wire/placement.h"

namespace troupe::detail {

class TensorStore final : public ParameterStore {
 public:
  /// Takes the replica's optimisers over: afterwards they own this server's shards, and the
  /// replica's parameters are empty. Both arguments outlive the store. `served` was made from the
  /// replica. Throws: ConfigError for an optimiser that cannot be served.
  TensorStore(Replica& replica, const ServedParameters& served, int server);

  void load(Span<const std::byte> state) override;
  [[nodiscard]] std::vector<std::byte> save() override;
  [[nodiscard]] bool accepts(const Push& push) const override;
  /// Additions are made in float32 or float64, as strategies/gradients/replica_sum.cpp does. A
  /// gradient that all pushes give by rows is a sparse tensor to the optimiser, as on one device.
  void apply(const std::vector<const Push*>& pushes, double scale) override;
  void read(int shard, Span<const std::int64_t> rows, Span<std::byte> out) const override;

 private:
  [[nodiscard]] torch::optim::Optimizer& optimizer_at(std::size_t number) const;
  [[nodiscard]] const at::Tensor& held(int shard) const;
  /// One block as a gradient: dense, or a sparse tensor over the shard's rows. `kept`: the dense
  /// one of an earlier step, whose memory is used again unless an optimiser has kept the tensor.
  [[nodiscard]] at::Tensor gradient_of(const RowBlock& block, at::Tensor& kept) const;
  [[nodiscard]] at::Tensor sum_of(const std::vector<const RowBlock*>& blocks, double scale);

  Replica& replica_;
  const ServedParameters& served_;
  std::vector<at::Tensor> values_;  // by shard; undefined where another server has it
  std::vector<NamedTensor> named_;  // this server's, by name
  std::vector<std::vector<at::Tensor>> gradients_;  // dense ones, by shard and place in its sum
};

}  // namespace troupe::detail
