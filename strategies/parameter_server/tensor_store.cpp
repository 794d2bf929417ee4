#include "troupe/strategies/parameter_server/tensor_store.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstring>
#include <map>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/gradients/replica_sum.h"
#include "troupe/strategies/parameter_server/shard_states.h"
#include "troupe/strategies/parameter_server/stale_step.h"
#include "troupe/strategies/tensor_sums.h"

namespace troupe::detail {
namespace {

using nlohmann::json;

ConfigError unfit_part(const std::string& what) {
  return ConfigError("the chief's state does not fit this server: " + what + ".",
                     "run the same program on every worker and server.");
}

at::Tensor row_numbers(Span<const std::int64_t> rows) {
  return host_tensor(as_bytes(rows), {static_cast<std::int64_t>(rows.size())}, torch::kInt64);
}

}  // namespace

TensorStore::TensorStore(Replica& replica, const ServedParameters& served, int server)
    : replica_(replica),
      served_(served),
      values_(served.model.shards.size()),
      gradients_(values_.size()) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Shard& shard = served.model.shards[i];
    if (shard.server != server) continue;
    const auto tensor = static_cast<std::size_t>(shard.tensor);
    values_[i] = rows_of(served.tensors[tensor].second, shard).clone(at::MemoryFormat::Contiguous);
    if (served.model.tensors[tensor].optimizer >= 0) values_[i].requires_grad_();
    named_.emplace_back(served.name_of(static_cast<int>(i)), values_[i]);
  }
  for (std::size_t o = 0; o < served.optimizers.size(); ++o) {
    auto& optimizer = optimizer_at(o);
    std::vector<NamedTensor> whole;
    std::vector<NamedTensor> own;
    const auto description = describe_optimizer(optimizer, replica.parameters(), whole);
    const auto part = shards_of_optimizer(description, whole, served, server, own);
    optimizer.state().clear();
    for (auto& group : optimizer.param_groups()) {
      std::vector<at::Tensor> shards;
      for (const at::Tensor& parameter : group.params()) {
        const int number = served.number_of(parameter);
        if (number < 0) continue;
        for (const int shard : served.shards_of[static_cast<std::size_t>(number)]) {
          const at::Tensor& values = values_[static_cast<std::size_t>(shard)];
          if (values.defined()) shards.push_back(values);
        }
      }
      group.params() = std::move(shards);
    }
    restore_optimizer(optimizer, named_, part, own);
  }
  // What other servers hold is not to take memory here.
  for (const NamedTensor& parameter : served.tensors) {
    parameter.second.set_data(torch::empty({0}, parameter.second.options()));
  }
}

torch::optim::Optimizer& TensorStore::optimizer_at(std::size_t number) const {
  return replica_.optimizer(served_.optimizers.at(number));
}

const at::Tensor& TensorStore::held(int shard) const {
  const auto own = static_cast<std::size_t>(shard);
  TROUPE_CHECK(own < values_.size() && values_[own].defined());
  return values_[own];
}

void TensorStore::load(Span<const std::byte> bytes) {
  const torch::NoGradGuard no_grad;
  const ShardState state = read_state(bytes);
  if (state.optimizers.size() != served_.optimizers.size()) {
    throw unfit_part("it has another number of optimisers");
  }
  const auto values = named_below(state.tensors, "value/");
  const std::map<std::string, at::Tensor> by_name(values.begin(), values.end());
  if (by_name.size() != named_.size()) throw unfit_part("it has other shards");
  for (const auto& [name, tensor] : named_) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw unfit_part("it lacks " + name);
    const at::Tensor& from = found->second;
    at::Tensor into = tensor;
    if (from.sizes() != into.sizes() || from.scalar_type() != into.scalar_type()) {
      throw unfit_part(text(name, " is ", from.scalar_type(), " ", from.sizes(), " where ",
                            into.scalar_type(), " ", into.sizes(), " is held"));
    }
    into.copy_(from);
  }
  try {
    for (std::size_t o = 0; o < served_.optimizers.size(); ++o) {
      restore_optimizer(optimizer_at(o), named_, state.optimizers[o],
                        named_below(state.tensors, optimizer_prefix(o)));
    }
  } catch (const CheckpointError& error) {
    throw unfit_part(error.cause());
  } catch (const json::exception& error) {
    throw unfit_part(error.what());
  }
}

std::vector<std::byte> TensorStore::save() {
  ShardState state;
  for (const auto& [name, values] : named_) state.tensors.emplace_back("value/" + name, values);
  for (std::size_t o = 0; o < served_.optimizers.size(); ++o) {
    std::vector<NamedTensor> own;
    state.optimizers.push_back(describe_optimizer(optimizer_at(o), named_, own));
    for (const auto& [name, tensor] : own) {
      state.tensors.emplace_back(optimizer_prefix(o) + name,
                                 tensor.is_sparse() ? tensor.to_dense() : tensor);
    }
  }
  return write_state(state);
}

at::Tensor TensorStore::gradient_of(const RowBlock& block, at::Tensor& kept) const {
  const at::Tensor& values = held(block.shard);
  if (block.all_rows) {
    if (!kept.defined() || kept.use_count() > 1) kept = torch::empty_like(values);
    TROUPE_CHECK_EQ(kept.nbytes(), block.values.size());
    if (!block.values.empty()) std::memcpy(kept.data_ptr(), block.values.data(), kept.nbytes());
    return kept;
  }
  auto sizes = values.sizes().vec();
  sizes[0] = static_cast<std::int64_t>(block.rows.size());
  const at::Tensor rows = host_tensor(block.values, sizes, values.scalar_type());
  return torch::sparse_coo_tensor(row_numbers(block.rows).unsqueeze(0), rows, values.sizes());
}

at::Tensor TensorStore::sum_of(const std::vector<const RowBlock*>& blocks, double scale) {
  bool sparse = true;
  bool empty = true;
  for (const RowBlock* block : blocks) {
    sparse = sparse && !block->all_rows;
    empty = empty && !block->all_rows && block->rows.empty();
  }
  // The step counts here, too; LibTorch 1.13 does not take a sparse gradient without rows.
  if (empty) return torch::zeros_like(held(blocks.front()->shard));
  std::vector<at::Tensor>& kept = gradients_[static_cast<std::size_t>(blocks.front()->shard)];
  if (kept.size() < blocks.size()) kept.resize(blocks.size());
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    at::Tensor gradient = gradient_of(*blocks[i], kept[i]);
    gradients.push_back(!sparse && gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  at::Tensor total = sum_in_rank_order(std::move(gradients));
  if (scale != 1) total.mul_(scale);
  return sparse ? total.coalesce() : total;
}

bool TensorStore::accepts(const Push& push) const {
  const auto number = static_cast<std::size_t>(push.optimizer);
  return number < served_.optimizers.size() &&
         push.learning_rates.size() == optimizer_at(number).param_groups().size();
}

void TensorStore::apply(const std::vector<const Push*>& pushes, double scale) {
  TROUPE_CHECK(!pushes.empty());
  const torch::NoGradGuard no_grad;
  auto& optimizer = optimizer_at(static_cast<std::size_t>(pushes.front()->optimizer));
  auto& groups = optimizer.param_groups();
  TROUPE_CHECK_EQ(pushes.front()->learning_rates.size(), groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].options().set_lr(pushes.front()->learning_rates[g]);
  }
  std::vector<std::vector<const RowBlock*>> blocks(values_.size());  // by shard, in push order
  for (const Push* push : pushes) {
    TROUPE_CHECK_EQ(push->optimizer, pushes.front()->optimizer);
    for (const RowBlock& block : push->gradients) {
      blocks.at(static_cast<std::size_t>(block.shard)).push_back(&block);
    }
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!blocks[i].empty()) values_[i].mutable_grad() = sum_of(blocks[i], scale);
  }
  step_stale(optimizer, pushes.front()->missed);
  for (const at::Tensor& values : values_) {
    if (values.defined()) values.mutable_grad() = at::Tensor();
  }
}

void TensorStore::read(int shard, Span<const std::int64_t> rows, Span<std::byte> out) const {
  if (out.empty()) return;
  const torch::NoGradGuard no_grad;
  const at::Tensor values = held(shard).detach();
  const at::Tensor wanted = rows.empty() ? values : values.index_select(0, row_numbers(rows));
  TROUPE_CHECK_EQ(wanted.nbytes(), out.size());
  if (out.size() > 0) std::memcpy(out.data(), wanted.data_ptr(), out.size());
}

}  // namespace troupe::detail
