#include "troupe/strategies/gradients/block_sum.h"

#include <torch/types.h>

#include "troupe/core/error.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/hooks/replica_driver.h"

namespace troupe::detail {

void BlockSum::begin_step() {
  updates_.clear();
  next_ = 0;
  is_first_replica_ = true;
}

void BlockSum::refuse_order() const {
  throw ConfigError(
      "train_step called apply_gradients for other optimisers, or in another order, on one virtual "
      "replica than on another.",
      "make train_step call apply_gradients equally often, in the same order, on every replica.");
}

bool BlockSum::postpone(const std::string& optimizer, const std::vector<NamedTensor>& parameters) {
  if (is_first_replica_) {
    updates_.push_back({optimizer, &parameters, set_of(parameters), {}, {}});
    updates_.back().sums.resize(updates_.back().set->parts.size());
  }
  if (next_ == updates_.size() || updates_[next_].optimizer != optimizer) refuse_order();
  Update& update = updates_[next_++];
  for (std::size_t i = 0; i < update.sums.size(); ++i) {
    FlatGradients& gradients = *update.set->parts[i].gradients;
    gradients.start();
    gradients.fill(/*wants_all=*/false);
    update.sums[i].push(gradients.flat());
  }
  return true;
}

void BlockSum::end_replica() {
  if (next_ != updates_.size()) refuse_order();
  next_ = 0;
  is_first_replica_ = false;
}

void BlockSum::skip_replica() {
  for (Update& update : updates_) {
    for (std::size_t i = 0; i < update.sums.size(); ++i) {
      update.sums[i].push(torch::zeros_like(update.set->parts[i].gradients->flat()));
    }
  }
}

void BlockSum::sum_updates() {
  const torch::NoGradGuard no_grad;
  for (Update& update : updates_) {
    bool finite = true;
    for (std::size_t i = 0; i < update.sums.size(); ++i) {
      const Part& part = update.set->parts[i];
      part.gradients->flat().copy_(update.sums[i].take());
      add_up(part);
      finite = part.gradients->give_back(FlatGradients::Sums::all).finite && finite;
      // A later update of the same optimiser uses the same memory.
      update.totals.push_back(updates_.size() > 1 ? part.gradients->flat().clone() : at::Tensor());
    }
    if (!finite) check_finite_gradients(*update.parameters);
  }
}

void BlockSum::take_steps(Replica& replica, double factor) {
  for (const Update& update : updates_) {
    for (std::size_t i = 0; i < update.totals.size(); ++i) {
      if (!update.totals[i].defined()) continue;
      FlatGradients& gradients = *update.set->parts[i].gradients;
      {
        const torch::NoGradGuard no_grad;
        gradients.flat().copy_(update.totals[i]);
      }
      (void)gradients.give_back(FlatGradients::Sums::all);
    }
    ReplicaDriver(replica).finish_update(update.optimizer, factor);
  }
}

std::vector<std::pair<std::string, std::string>> BlockSum::digests() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Update& update : updates_) {
    Sha256 digest;
    for (std::size_t i = 0; i < update.totals.size(); ++i) {
      const at::Tensor& total = update.totals[i];
      const at::Tensor& sum = total.defined() ? total : update.set->parts[i].gradients->flat();
      digest.update(host_bytes(sum.to(torch::kCPU).contiguous()));
    }
    all.emplace_back(update.optimizer, digest.hex().substr(0, 12));
  }
  return all;
}

void BlockSum::sum(const at::Tensor& flat, const std::string& what) {
  if (place().count != place().devices) {
    throw ConfigError(
        text(what, " needs all replicas at the same time, and --virtual-replicas ", place().count,
             " are computed one after the other on ", place().devices,
             place().devices == 1 ? " device." : " devices."),
        "use as many workers and --devices as there are virtual replicas; in place of "
        "SyncBatchNorm BatchNorm, whose statistics are each virtual replica's own.");
  }
  if (is_elastic_) {
    throw ConfigError(what +
                          ": in an elastic group nothing is summed within a step, where a worker "
                          "that is lost would end the others.",
                      "leave out --min-workers; in place of SyncBatchNorm use BatchNorm.");
  }
  OverlappedSum::sum(flat, what);
}

}  // namespace troupe::detail
