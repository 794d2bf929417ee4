#include "troupe/strategies/parameter_server/server_exchange.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/strategies/gradients/optimizer_step.h"

namespace troupe::detail {
namespace {

/// A push under construction: the blocks point into what is kept here.
class PushBuilder {
 public:
  explicit PushBuilder(const ServedParameters& served) : served_(served) {}

  Push push;

  void add_all(int number, const at::Tensor& gradient) {
    const at::Tensor& whole = keep(gradient);
    for (const int shard : shards_of(number)) {
      const at::Tensor part = rows_of(whole, served_.model.shard(shard));
      push.gradients.push_back({shard, true, {}, host_bytes(part)});
    }
  }

  /// Every shard is named, also where none of its rows has a gradient: its optimiser then takes the
  /// step of the whole tensor, as on one device.
  void add_rows(int number, const at::Tensor& gradient) {
    const at::Tensor values = keep(gradient.values());
    const at::Tensor indices = gradient.indices()[0].to(torch::kCPU).contiguous();
    const auto* begin = indices.data_ptr<std::int64_t>();
    const auto* end = begin + indices.numel();
    for (const int shard : shards_of(number)) {
      const std::int64_t first_row = served_.model.shard(shard).first_row;
      const auto* from = std::lower_bound(begin, end, first_row);
      const auto* to = std::lower_bound(from, end, first_row + served_.model.shard(shard).rows);
      rows_.emplace_back(from, to);
      for (std::int64_t& row : rows_.back()) row -= first_row;
      push.gradients.push_back(
          {shard, false, rows_.back(), host_bytes(values.narrow(0, from - begin, to - from))});
    }
  }

 private:
  /// On the host, and alive as long as this object. The host waits for the device here.
  const at::Tensor& keep(const at::Tensor& values) {
    kept_.push_back(values.detach().to(torch::kCPU).contiguous());
    return kept_.back();
  }
  [[nodiscard]] const std::vector<int>& shards_of(int number) const {
    return served_.shards_of[static_cast<std::size_t>(number)];
  }

  const ServedParameters& served_;
  std::deque<at::Tensor> kept_;
  std::deque<std::vector<std::int64_t>> rows_;
};

}  // namespace

void ServerExchange::attach(const ServedParameters& served, ServerClient& client) {
  served_ = &served;
  client_ = &client;
}

void ServerExchange::begin_batch(std::int64_t examples, std::int64_t global_examples) {
  weight_ = static_cast<double>(examples);
  divisor_ = static_cast<double>(global_examples);
}

void ServerExchange::push(const std::string& name, torch::optim::Optimizer& optimizer) {
  const torch::NoGradGuard no_grad;
  PushBuilder builder(*served_);
  const OptimizerKind& kind = kind_of(optimizer);
  const auto& names = served_->optimizers;
  builder.push.optimizer =
      static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
  for (auto& group : optimizer.param_groups()) {
    builder.push.learning_rates.push_back(group.options().get_lr());
    // Servers send back the rows that were pushed.
    const bool by_rows = kind.changes_given_rows_only(group.options());
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor& gradient = parameter.grad();
      const int tensor = served_->number_of(parameter);
      if (!gradient.defined() || tensor < 0) continue;
      if (!gradient.is_sparse()) {
        builder.add_all(tensor, gradient);
      } else if (by_rows) {
        builder.add_rows(tensor, gradient);
      } else {
        warn_of_dense(name, tensor);
        builder.add_all(tensor, gradient.to_dense());
      }
    }
  }
  builder.push.weight = weight_;
  builder.push.divisor = divisor_;
  const bool has_any =
      client_->push(builder.push, [this](const RowBlock& block) { install(block); });
  if (!pushed_.insert(name).second || has_any) return;
  std::vector<NamedTensor> parameters;
  for (std::size_t i = 0; i < served_->tensors.size(); ++i) {
    if (served_->model.tensors[i].optimizer == builder.push.optimizer)
      parameters.push_back(served_->tensors[i]);
  }
  throw no_gradient(name, parameters);
}

void ServerExchange::warn_of_dense(const std::string& optimizer, int tensor) {
  if (std::exchange(warned_, true)) return;
  log_warning("\"", served_->model.tensors[static_cast<std::size_t>(tensor)].name,
              "\" has sparse gradients, but a step of optimiser \"", optimizer,
              "\" changes all its rows: they travel whole. SGD without momentum and weight decay, "
              "and Adagrad, change the gradient's rows only");
}

void ServerExchange::install(const RowBlock& block) const {
  const torch::NoGradGuard no_grad;
  const Shard& shard = served_->model.shard(block.shard);
  at::Tensor into = rows_of(served_->tensors[static_cast<std::size_t>(shard.tensor)].second, shard);
  auto sizes = into.sizes().vec();
  if (!block.all_rows) sizes[0] = static_cast<std::int64_t>(block.rows.size());
  const at::Tensor values = host_tensor(block.values, sizes, into.scalar_type());
  if (block.values.empty()) return;
  if (block.all_rows) {
    into.copy_(values);
    return;
  }
  const std::vector<std::int64_t> rows(block.rows.begin(), block.rows.end());
  into.index_copy_(0, torch::tensor(rows, torch::kInt64).to(into.device()),
                   values.to(into.device()));
}

}  // namespace troupe::detail
