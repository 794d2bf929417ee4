#include "troupe/strategies/kinds/weight_comparison.h"

#include <torch/types.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "troupe/core/checksum.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/replicas/local_replicas.h"
#include "troupe/strategies/sharing_failure.h"

namespace troupe {
namespace detail {
namespace {

using Fingerprints = std::vector<Fingerprint>;

const char* const kStartAgain =
    "start the group again: it resumes from the newest checkpoint, if there is one. If the same "
    "worker is named again at another step, suspect its memory, processor or link; if the same "
    "step "
    "is named again, look for a hook that changes weights by rank, or for workers that differ in "
    "processor or --threads and so round differently.";

/// Every worker's, by rank.
std::vector<Fingerprints> gather(Strategy& strategy, const Fingerprints& mine) {
  const auto bytes = as_bytes(Span<const Fingerprint>(mine));
  std::vector<Fingerprints> all;
  for (const std::string& theirs :
       strategy.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    all.emplace_back(theirs.size() / sizeof(Fingerprint));
    std::memcpy(all.back().data(), theirs.data(), all.back().size() * sizeof(Fingerprint));
  }
  return all;
}

/// The copies that differ from what more than half of all hold; all, if no more than half agree.
std::vector<std::size_t> odd_ones(const Fingerprints& all) {
  std::vector<std::size_t> odd;
  for (const Fingerprint& candidate : all) {
    odd.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] != candidate) odd.push_back(i);
    }
    if (2 * odd.size() < all.size()) return odd;
  }
  odd.resize(all.size());
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = i;
  return odd;
}

/// The first tensor that is not the same everywhere; "" if the lists are not of one length.
std::string first_odd_tensor(const std::vector<Fingerprints>& by_worker,
                             const std::vector<NamedTensor>& names) {
  const Fingerprints& expected = by_worker.front();
  for (const Fingerprints& fingerprints : by_worker) {
    if (fingerprints.size() != expected.size()) return "";
  }
  for (std::size_t tensor = 0; tensor < names.size(); ++tensor) {
    for (const Fingerprints& fingerprints : by_worker) {
      for (std::size_t at = tensor; at < fingerprints.size(); at += names.size()) {
        if (fingerprints[at] != expected[tensor]) return names[tensor].first;
      }
    }
  }
  return "";
}

/// Beside the parameters, of the first replica: the chief's is what is saved. Other replicas of a
/// worker may have none, and what is wrong in theirs shows in their weights a step later.
/// Where optimisers' states are divided, each worker has another part of them.
std::vector<NamedTensor> saved_for_all(const TrainState& state) {
  std::vector<NamedTensor> all;
  if (state.averages) all = state.averages->values;
  if (state.optimizer_shards > 1) return all;
  (void)describe_optimizers(*state.replicas.front(), all);
  return all;
}

}  // namespace

void compare_copies(Strategy& strategy, const Copies& copies, const std::string& when,
                    const std::string& saved) {
  const CollectiveLabel label(text("a comparison of ", copies.what, " ", when));
  Fingerprints of_tensors;  // one copy's after the other's
  Fingerprints of_copies;
  for (const auto& list : copies.lists) {
    Fingerprints own;
    for (const auto& [name, tensor] : list) {
      own.push_back(fingerprint_of(host_bytes(tensor.detach().to(at::kCPU).contiguous())));
    }
    of_copies.push_back(fingerprint_of(as_bytes(Span<const Fingerprint>(own))));
    of_tensors.insert(of_tensors.end(), own.begin(), own.end());
  }
  const std::vector<Fingerprints> workers = gather(strategy, of_copies);
  Fingerprints all;
  for (const Fingerprints& worker : workers) all.insert(all.end(), worker.begin(), worker.end());
  const std::vector<std::size_t> odd = odd_ones(all);
  if (odd.empty()) return;

  std::vector<std::string> who;
  for (const std::size_t copy : odd) {
    const std::string rank = text("rank ", copy / of_copies.size());
    const std::string replica = text("replica ", copy);
    if (workers.size() == 1) {
      who.push_back(replica);
    } else {
      who.push_back(of_copies.size() == 1 ? rank : text(replica, " (", rank, ")"));
    }
  }
  const std::string first = first_odd_tensor(gather(strategy, of_tensors), copies.lists.front());
  fail_alike(strategy,
             WeightsDiffer(text(when, " the ", copies.what, " of ", join_names(who), " differ",
                                odd.size() < all.size() ? " from those of the others" : "",
                                first.empty() ? "" : text(", first in \"", first, "\""), ".",
                                saved.empty() ? "" : " ", saved),
                           kStartAgain));
}

void check_weights(Strategy& strategy, const TrainState& state, std::optional<std::int64_t> saved,
                   const Captured* captured) {
  const int workers = strategy.pace().voices();
  const std::string when = text("after step ", state.step);
  const std::string newest =
      saved ? text("the newest checkpoint is of step ", *saved, ".") : "there is no checkpoint.";
  const std::string consequence = "Nothing of this step was saved; " + newest;
  if (workers > 1 || state.replicas.size() > 1) {
    Copies weights{"weights", {}};
    // Buffers are equal, too, where there are virtual replicas.
    for (const auto& replica : state.replicas) {
      weights.lists.push_back(strategy.virtual_replicas() > 0 ? state_of(*replica)
                                                              : replica->parameters());
    }
    if (captured && !captured->weights.empty()) weights.lists.front() = captured->weights;
    compare_copies(strategy, weights, when, consequence);
  }
  if (!captured || workers == 1) return;
  compare_copies(strategy,
                 {"averages and optimiser states",
                  {captured->weights.empty() ? saved_for_all(state) : captured->others}},
                 when, consequence);
}

}  // namespace detail

std::string parameter_hash(const Replica& replica) {
  Sha256 digest;
  for (const NamedTensor& tensor : detail::state_of(replica)) {
    digest.update(
        text(tensor.first, " ", tensor.second.scalar_type(), " ", tensor.second.sizes(), "\n"));
    digest.update(detail::host_bytes(tensor.second.detach().to(at::kCPU).contiguous()));
  }
  return digest.hex();
}

std::string common_parameter_hash(Strategy& strategy, const TrainState& state) {
  detail::Copies copies{"weights", {}};
  for (const auto& replica : state.replicas) copies.lists.push_back(detail::state_of(*replica));
  detail::compare_copies(strategy, copies, text("after step ", state.step));
  return parameter_hash(*state.replicas.front());
}

}  // namespace troupe
