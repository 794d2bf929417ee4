#include "troupe/strategies/replicas/virtual_replicas.h"

#include <ATen/ThreadLocalState.h>
#include <torch/types.h>

#include <algorithm>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/step_weights.h"
#include "troupe/strategies/replicas/local_replicas.h"
#include "troupe/strategies/replicas/random_fill.h"
#include "troupe/strategies/tensor_sums.h"

namespace troupe::detail {
namespace {

const char* const kSameLosses = "return losses of the same names on every replica in every step.";

/// By name, so that the order in which a step returns its losses does not matter.
LossValues sorted(LossValues losses) {
  std::sort(losses.begin(), losses.end());
  return losses;
}

/// One line each.
std::string name_lines(const LossValues& losses, bool weighted) {
  std::string names = weighted ? "/weighted\n" : "";
  for (const auto& [name, value] : losses) names += name + "\n";
  return names;
}

at::Tensor in_float64(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

// Buffers that are not floating point are virtual replica 0's. In a sum to which it alone adds
// something, their bits are numbers that a double holds exactly, four bytes at a time if they go.

at::ScalarType word_of(const at::Tensor& buffer) {
  return buffer.element_size() % sizeof(std::int32_t) == 0 ? torch::kInt32 : torch::kUInt8;
}

at::Tensor words_of(const at::Tensor& buffer) {
  const at::Tensor host = buffer.detach().to(torch::kCPU).reshape({-1});
  return host.view(word_of(buffer)).to(torch::kFloat64);
}

at::Tensor from_words(const at::Tensor& words, const at::Tensor& like) {
  return words.to(word_of(like)).view(like.scalar_type()).view(like.sizes());
}

/// A copy in float64 on the host, [n].
at::Tensor wide(const at::Tensor& buffer) {
  return torch::empty(buffer.sizes(), torch::kFloat64).copy_(buffer).reshape({-1});
}

void put_back(Replica& replica, const std::vector<at::Tensor>& buffers) {
  const torch::NoGradGuard no_grad;
  const std::vector<NamedTensor> now = replica.buffers();
  for (std::size_t k = 0; k < now.size(); ++k) {
    at::Tensor buffer = now[k].second;
    buffer.copy_(buffers[k]);
  }
}

using Facts = std::vector<std::pair<std::string, std::string>>;

void check_repeated(const Facts& first, const Facts& second, std::int64_t step) {
  const auto [one, other] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  if (one == first.end() && other == second.end()) return;
  const bool is_both = one != first.end() && other != second.end() && one->first == other->first;
  throw ConfigError(
      text("step ", step, " was computed twice (--check-repeat), and ",
           one != first.end() ? one->first : other->first,
           is_both ? text(" was ", one->second, " and then ", other->second, ".")
                   : std::string(" was there only once.")),
      "have train_step keep nothing to itself from one call to the next: what lasts belongs into "
      "registered buffers, and random numbers come from LibTorch's generators "
      "(docs/elastic.md).");
}

/// Of one buffer: what a virtual replica adds to the sum; `after` undefined: it changed nothing.
at::Tensor share_of(const at::Tensor& before, const at::Tensor& after, bool has_examples,
                    bool is_first) {
  const at::Tensor& value = after.defined() ? after : before;
  if (before.is_floating_point())
    return has_examples ? wide(value) : torch::zeros_like(wide(before));
  const at::Tensor words = words_of(value);
  return is_first ? words : torch::zeros_like(words);
}

}  // namespace

VirtualReplicas::VirtualReplicas(const GroupView& view, ReplicaThreads& threads, ReplicaSum& sum,
                                 std::vector<BlockSum*> updates, bool check_repeat)
    : view_(view),
      generator_(view.devices),
      threads_(threads),
      sum_(sum),
      updates_(std::move(updates)),
      check_repeat_(check_repeat) {}

void VirtualReplicas::begin(const TrainState& state, std::uint64_t seed) {
  seed_ = seed;
  for (const auto& replica : state.replicas) ReplicaDriver(*replica).expect_repeats();
  for (const c10::Device& device : view_.devices) fill_generators(device, {seed_});
}

std::vector<StepResult> VirtualReplicas::run(const Step& step, TrainState& state,
                                             const DistributedBatch& batch, Phase phase) {
  TROUPE_CHECK_EQ(batch.replicas.size(), static_cast<std::size_t>(hosting().block.size()));
  const bool trains = phase == Phase::train;
  Total total = compute_all(step, state, batch, phase);
  if (!generator_.draws().empty()) {
    throw ConfigError(
        generator_.draws() + ".",
        "use one replica per worker with --virtual-replicas; more workers do as well.");
  }
  if (check_repeat_ && trains) {
    const Facts first = facts_of(state, total);
    total = compute_all(step, state, batch, phase);
    check_repeated(first, facts_of(state, total), state.step + 1);
  }
  if (group_ != nullptr) group_->commit(host_bytes(total.last));
  if (trains) apply(state, total);
  // Every worker has the whole step's; a sum over its replicas must not count it twice.
  MetricSet& metrics = ReplicaDriver(*state.replicas.front()).metrics(phase);
  std::vector<double> sums = metrics.sums();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += total.metrics[i];
  metrics.set_sums(sums);
  // What the loop draws between steps is the same on every worker.
  for (const c10::Device& device : view_.devices) {
    fill_generators(
        device, {seed_, static_cast<std::uint64_t>(phase), static_cast<std::uint64_t>(state.step),
                 static_cast<std::uint64_t>(batch.step)});
  }
  return {std::move(total.result)};
}

VirtualReplicas::Total VirtualReplicas::compute_all(const Step& step, TrainState& state,
                                                    const DistributedBatch& batch, Phase phase) {
  made_.assign(batch.replicas.size(), {});
  const bool trains = phase == Phase::train;
  run_replicas(threads_, view_.devices, [&](int device) {
    const auto run_one = [&] { compute(device, step, state, batch, phase); };
    device == 0 ? generator_.watch(phase, run_one) : run_one();
    if (trains) updates_[static_cast<std::size_t>(device)]->sum_updates();
  });
  const std::vector<NamedTensor> buffers = state.replicas.front()->buffers();
  Total total = add_up(buffers, static_cast<double>(batch.global_examples));
  if (trains) add_up_buffers(buffers, total);
  return total;
}

/// What a step has computed, each with its value or a digest of it; the same on every worker.
Facts VirtualReplicas::facts_of(const TrainState& state, const Total& total) const {
  Facts facts;
  for (const auto& [name, loss] : total.result.losses)
    facts.emplace_back("the loss \"" + name + "\"", number_text(loss.item<double>()));
  const auto digest_of = [](Span<const std::byte> bytes) {
    Sha256 digest;
    digest.update(bytes);
    return digest.hex().substr(0, 12);
  };
  facts.emplace_back("the digest of its metrics' sums",
                     digest_of(as_bytes(Span<const double>(total.metrics))));
  const std::vector<NamedTensor> buffers = state.replicas.front()->buffers();
  for (std::size_t i = 0; i < total.changed.size(); ++i) {
    facts.emplace_back("the digest of the buffer \"" + buffers[total.changed[i]].first + "\"",
                       digest_of(host_bytes(total.buffers[i].to(torch::kCPU).contiguous())));
  }
  for (const auto& [optimizer, digest] : updates_.front()->digests())
    facts.emplace_back("the digest of the gradients for the optimiser \"" + optimizer + "\"",
                       digest);
  return facts;
}

/// Replica 0 of the step runs on each device, with examples or not: its control flow, and so the
/// sums that follow, are those of all. Of the others those without examples are left out.
void VirtualReplicas::compute(int device, const Step& step, TrainState& state,
                              const DistributedBatch& batch, Phase phase) {
  const TreeCut::Node node = hosting().of_device(device);
  const auto made = [&](int i) -> Made& {
    return made_[static_cast<std::size_t>(i - hosting().block.begin)];
  };
  BlockSum& update = *updates_[static_cast<std::size_t>(device)];
  update.begin_step();
  for (int i = node.begin; i < node.end; ++i) {
    const Batch& own = batch.replicas[static_cast<std::size_t>(i - hosting().block.begin)];
    if (own.stand_in && i > node.begin) {
      made(i) = made(node.begin);
      Made& nothing = made(i);
      nothing.has_examples = false;
      for (auto& [name, loss] : nothing.losses) loss = 0;
      if (nothing.weight) nothing.weight = 0;
      nothing.metrics.assign(nothing.metrics.size(), 0);
      nothing.buffers.assign(nothing.buffers.size(), at::Tensor());
      if (phase == Phase::train) update.skip_replica();
      continue;
    }
    made(i) = compute_one(device, i, step, state, batch, phase);
    if (phase == Phase::train) update.end_replica();
  }
  ReplicaDriver(*state.replicas[static_cast<std::size_t>(device)])
      .set_place(node.begin, hosting().virtual_replicas);
}

VirtualReplicas::Made VirtualReplicas::compute_one(int device, int virtual_replica,
                                                   const Step& step, TrainState& state,
                                                   const DistributedBatch& batch, Phase phase) {
  const auto own = static_cast<std::size_t>(device);
  Replica& replica = *state.replicas[own];
  ReplicaDriver driver(replica);
  driver.set_place(virtual_replica, hosting().virtual_replicas);
  fill_generators(
      view_.devices[own],
      {seed_, static_cast<std::uint64_t>(phase), static_cast<std::uint64_t>(state.step),
       static_cast<std::uint64_t>(batch.step), static_cast<std::uint64_t>(virtual_replica)});
  std::vector<at::Tensor> before;
  for (const auto& [name, buffer] : replica.buffers()) before.push_back(buffer.detach().clone());
  MetricSet& metrics = driver.metrics(phase);
  const std::vector<double> metrics_before = metrics.sums();
  metrics.reset();
  const Batch& input =
      batch.replicas[static_cast<std::size_t>(virtual_replica - hosting().block.begin)];
  StepResult result;
  try {
    result = run_on_replica(step, replica, batch,
                            static_cast<std::size_t>(virtual_replica - hosting().block.begin),
                            phase, state.step);
  } catch (...) {
    // A worker may have been lost while the step made its first gradients: it is done again.
    metrics.set_sums(metrics_before);
    put_back(replica, before);
    throw;
  }

  Made made;
  made.has_examples = !input.stand_in;
  for (const auto& [name, loss] : result.losses) {
    made.losses.emplace_back(name, loss.item<double>());  // the host waits for the device here
  }
  made.weight = driver.undivided_weight();
  made.metrics = metrics.sums();
  metrics.set_sums(metrics_before);
  const torch::NoGradGuard no_grad;
  const std::vector<NamedTensor> after = replica.buffers();
  for (std::size_t k = 0; k < after.size(); ++k) {
    at::Tensor now = after[k].second;
    const bool changed = !now.equal(before[k]);
    made.buffers.push_back(changed && made.has_examples ? now.detach().clone() : at::Tensor());
    if (changed) now.copy_(before[k]);
  }
  return made;
}

/// Any of them may turn out to be the step's last. Collective.
void VirtualReplicas::add_over_workers(const at::Tensor& sums, const char* what) {
  const auto add_up = [&] { sum_.add_over_workers(sums, Summand(what)); };
  if (group_ != nullptr) return group_->conclude(host_bytes(sums), add_up);
  add_up();
}

/// Collective.
VirtualReplicas::Total VirtualReplicas::add_up(const std::vector<NamedTensor>& buffers,
                                               double examples) {
  const Made& first = made_.front();
  const std::string names = name_lines(sorted(first.losses), first.weight.has_value());
  std::vector<at::Tensor> leaves;
  for (const Made& made : made_) {
    const LossValues losses = sorted(made.losses);
    if (name_lines(losses, made.weight.has_value()) != names) {
      throw ConfigError(
          "a step of one virtual replica returned other losses than another one's, or only one "
          "with weights.",
          kSameLosses);
    }
    std::vector<double> numbers;
    for (const auto& [name, loss] : losses) numbers.push_back(loss);
    numbers.insert(numbers.end(), made.metrics.begin(), made.metrics.end());
    numbers.push_back(made.weight.value_or(0));
    numbers.push_back(made.has_examples ? 1 : 0);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      const bool counts =
          buffers[k].second.is_floating_point() || (hosting().block.begin == 0 && leaves.empty());
      numbers.push_back(counts && made.buffers[k].defined() ? 1 : 0);
    }
    leaves.push_back(in_float64(numbers));
  }
  const double label =
      label_of(names);  // a double holds it exactly, and so many workers' sum of it
  const at::Tensor sums =
      torch::cat({sum_in_rank_order(std::move(leaves)), in_float64({label, 1})});
  add_over_workers(sums, "losses, metrics and buffers of a step");
  const double* next = sums.data_ptr<double>();
  const double* const end = next + sums.numel();
  if (end[-2] != label * end[-1]) {
    throw ConfigError("the steps of another worker returned other losses than those of this one.",
                      kSameLosses);
  }
  Total total;
  total.last = sums;
  LossValues by_name = sorted(first.losses);
  for (auto& [name, loss] : by_name) loss = *next++;
  for (const auto& [name, ignored] : first.losses) {
    const auto sum = std::find_if(by_name.begin(), by_name.end(),
                                  [&key = name](const auto& loss) { return loss.first == key; });
    total.result.losses.emplace_back(name, torch::tensor(sum->second, torch::kFloat64));
  }
  total.metrics.assign(next, next + first.metrics.size());
  next += first.metrics.size();
  const double weight = *next++;
  if (first.weight) {
    redivide(total.result, examples, weight);
    total.factor = redivision(examples, weight);
  }
  total.with_examples = *next++;
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    if (*next++ != 0) total.changed.push_back(k);
  }
  return total;
}

/// Buffers stand as before the step on every replica. Collective.
void VirtualReplicas::add_up_buffers(const std::vector<NamedTensor>& buffers, Total& total) {
  if (total.changed.empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const std::size_t k : total.changed) {
    std::vector<at::Tensor> leaves;
    for (const Made& made : made_) {
      const bool is_first = hosting().block.begin == 0 && leaves.empty();
      leaves.push_back(share_of(buffers[k].second, made.buffers[k], made.has_examples, is_first));
    }
    parts.push_back(sum_in_rank_order(std::move(leaves)));
  }
  const at::Tensor sums = torch::cat(parts);
  add_over_workers(sums, "buffers of a step");
  total.last = sums;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const at::Tensor& buffer = buffers[total.changed[i]].second;
    const at::Tensor sum = sums.narrow(0, at, parts[i].numel());
    at += parts[i].numel();
    total.buffers.push_back(buffer.is_floating_point()
                                ? (sum / total.with_examples).view(buffer.sizes())
                                : from_words(sum, buffer));
  }
}

void VirtualReplicas::apply(const TrainState& state, const Total& total) {
  {
    const torch::NoGradGuard no_grad;
    for (const auto& replica : state.replicas) {
      std::vector<NamedTensor> buffers = replica->buffers();
      for (std::size_t i = 0; i < total.changed.size(); ++i) {
        buffers[total.changed[i]].second.copy_(total.buffers[i]);
      }
    }
  }
  run_replicas(threads_, view_.devices, [&](int device) {
    const auto own = static_cast<std::size_t>(device);
    updates_[own]->take_steps(*state.replicas[own], total.factor);
    if (state.after_step) state.after_step(*state.replicas[own]);
  });
}

}  // namespace troupe::detail
