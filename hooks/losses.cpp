#include "troupe/hooks/losses.h"

#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/named.h"

namespace troupe {
namespace {

/// A function of losses that are one for each example. Predictions [B, 1] beside targets [B], which
/// LibTorch makes [B, B] of, show in that the first example's loss is another one without the
/// others; the first calls with different shapes are tried so.
class PerExample {
 public:
  PerExample(std::string name, LossFunction function)
      : name_(std::move(name)), function_(std::move(function)) {}

  at::Tensor operator()(const at::Tensor& predictions, const at::Tensor& targets) const {
    at::Tensor losses = function_(predictions, targets);
    if (is_suspicious(predictions, targets) && left_->fetch_sub(1) > 0)
      check(predictions, targets, losses);
    return losses;
  }

 private:
  [[nodiscard]] static bool is_suspicious(const at::Tensor& predictions,
                                          const at::Tensor& targets) {
    return predictions.defined() && targets.defined() && predictions.is_floating_point() &&
           targets.is_floating_point() && predictions.dim() > 0 && targets.dim() > 0 &&
           predictions.sizes() != targets.sizes() && predictions.size(0) == targets.size(0) &&
           predictions.size(0) > 1;
  }

  void check(const at::Tensor& predictions, const at::Tensor& targets,
             const at::Tensor& losses) const {
    if (losses.dim() == 0 || losses.size(0) != predictions.size(0)) return;  // refused elsewhere
    const torch::NoGradGuard no_grad;
    const at::Tensor alone = function_(predictions.narrow(0, 0, 1), targets.narrow(0, 0, 1));
    if (alone.dim() == losses.dim() &&
        torch::allclose(alone[0], losses[0], 1e-4, 1e-6, /*equal_nan=*/true)) {
      return;
    }
    throw ConfigError(
        text("the loss \"", name_, "\" was given predictions ", predictions.sizes(),
             " and targets ", targets.sizes(),
             ", and what it makes of the first example depends on the others: "
             "LibTorch broadcasts such shapes."),
        "give it both in one shape: predictions.squeeze(1), or targets.unsqueeze(1).");
  }

  std::string name_;
  LossFunction function_;
  // Copies share it.
  std::shared_ptr<std::atomic<int>> left_ = std::make_shared<std::atomic<int>>(8);
};

}  // namespace

LossSet::LossSet(std::initializer_list<std::pair<std::string, LossFunction>> losses) {
  for (const auto& [name, function] : losses) add(name, function);
}

LossSet& LossSet::add(std::string name, LossFunction function) {
  detail::check_new_name(losses_, name, "loss", "create_losses");
  if (!function) {
    throw ConfigError("loss \"" + name + "\" is an empty function.",
                      "give it a function of predictions and targets in create_losses.");
  }
  PerExample checked(name, std::move(function));
  losses_.emplace_back(std::move(name), std::move(checked));
  return *this;
}

const LossFunction& LossSet::at(const std::string& name) const {
  return detail::find_named(losses_, name, "loss", "create_losses");
}

void detail::to_host(std::vector<StepResult>& results) {
  std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor*>> by_device;
  for (StepResult& result : results) {
    for (auto& [name, loss] : result.losses) {
      if (!loss.is_cpu()) by_device[{loss.device().str(), loss.scalar_type()}].push_back(&loss);
    }
  }
  for (const auto& [device, losses] : by_device) {
    if (losses.size() == 1) {
      *losses.front() = losses.front()->to(torch::kCPU);
      continue;
    }
    std::vector<at::Tensor> there;
    for (const at::Tensor* loss : losses) there.push_back(loss->reshape({}));
    const at::Tensor here = torch::stack(there).to(torch::kCPU);
    for (std::size_t i = 0; i < losses.size(); ++i) *losses[i] = here[static_cast<std::int64_t>(i)];
  }
}

void detail::LossMeter::add(const std::vector<StepResult>& results, std::int64_t global_examples) {
  examples_ += global_examples;
  std::set<std::string> counted;
  for (const StepResult& result : results) {
    for (std::size_t i = 0; i < result.losses.size(); ++i) {
      const auto& [name, loss] = result.losses[i];
      const double weight = (i < result.weights.size() ? result.weights[i] : std::nullopt)
                                .value_or(static_cast<double>(global_examples));
      const at::Tensor weighted = loss.to(torch::kFloat64).reshape({}) * weight;
      const auto known = std::find_if(entries_.begin(), entries_.end(),
                                      [&, &key = name](const Entry& e) { return e.name == key; });
      const bool is_new = known == entries_.end();
      Entry& entry = is_new ? entries_.emplace_back(Entry{name, weighted}) : *known;
      if (!is_new) entry.total = entry.total + weighted.to(entry.total.device());
      if (counted.insert(name).second) entry.weight += weight;
    }
  }
}

void detail::LossMeter::restore(const std::vector<detail::LossSum>& sums, std::int64_t examples) {
  entries_.clear();
  for (const detail::LossSum& sum : sums) {
    entries_.push_back({sum.name, torch::tensor(sum.total, torch::kFloat64), sum.weight});
  }
  examples_ = examples;
}

std::vector<detail::LossSum> detail::LossMeter::sums() const {
  std::vector<detail::LossSum> sums;
  for (const Entry& entry : entries_) {
    sums.push_back({entry.name, entry.total.item<double>(), entry.weight});
  }
  return sums;
}

}  // namespace troupe
