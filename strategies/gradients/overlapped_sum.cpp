#include "troupe/strategies/gradients/overlapped_sum.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/strategies/gradients/foreach_step.h"
#include "troupe/strategies/gradients/optimizer_shards.h"
#include "troupe/strategies/gradients/optimizer_step.h"

namespace troupe::detail {
namespace {

void check_dtype(const std::string& name, at::ScalarType dtype) {
  if (dtype == torch::kFloat32 || dtype == torch::kFloat64) return;
  throw ConfigError(text("parameter \"", name, "\" is ", dtype,
                         "; gradients are summed over replicas in float32 and float64."),
                    "keep the parameters in float32, or freeze this one.");
}

/// All gradients are there in an optimiser's first step, and the same ones on every replica.
void check_has_gradient(const std::string& optimizer, const std::vector<NamedTensor>& parameters) {
  const bool has_any = std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return parameter.second.grad().defined();
  });
  if (!has_any) throw no_gradient(optimizer, parameters);
}

/// Two optimisers may begin with the same parameter, and be of the same size.
Summand summand_of(const std::vector<NamedTensor>& parameters, std::int64_t size) {
  const auto& [first_name, first] = parameters.front();
  const std::string& last_name = parameters.back().first;
  std::int64_t values = 0;
  for (const auto& [name, parameter] : parameters) values += parameter.numel();
  return Summand(text("apply_gradients (", parameters.size(), " parameters from \"", first_name,
                      "\" to \"", last_name, "\", ", values, " ", first.scalar_type(), " values)"),
                 text(first_name, "/", last_name, "/", first.scalar_type(), "/", size));
}

}  // namespace

std::shared_ptr<OverlappedSum::Set> OverlappedSum::set_of(
    const std::vector<NamedTensor>& parameters) {
  std::vector<const void*> key;
  std::vector<char> trains;
  key.reserve(parameters.size());
  trains.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters) {
    key.push_back(parameter.unsafeGetTensorImpl());
    trains.push_back(parameter.requires_grad() ? 1 : 0);
  }
  std::shared_ptr<Set>& set = sets_[key];
  if (!set || set->trains != trains) {
    set = std::make_shared<Set>(make_set(parameters, std::move(trains)));
  }
  return set;
}

OverlappedSum::Set OverlappedSum::make_set(const std::vector<NamedTensor>& parameters,
                                           std::vector<char> trains) {
  const std::vector<int> all_owners = owners_of(parameters, place_.shards);
  Set set;
  set.trains = std::move(trains);
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    std::vector<NamedTensor> alike;
    std::vector<int> owners;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, parameter] = parameters[i];
      if (set.trains[i] == 0) continue;
      check_dtype(name, parameter.scalar_type());
      if (parameter.scalar_type() != dtype) continue;
      alike.push_back(parameters[i]);
      owners.push_back(all_owners[i]);
    }
    if (!alike.empty()) set.parts.push_back(make_part(std::move(alike), std::move(owners)));
  }
  return set;
}

OverlappedSum::Part OverlappedSum::make_part(std::vector<NamedTensor> parameters,
                                             std::vector<int> owners) {
  const at::TensorOptions options =
      at::TensorOptions(parameters.front().second.options()).requires_grad(false);
  const auto check = sum_.is_exact() ? FlatGradients::Check::flags : FlatGradients::Check::sums;
  // Virtual replicas' sums are looked at on every device, whoever takes the step.
  const bool divides =
      place_.devices == 0 && options.device().is_cpu() && sum_.is_exact() && sum_.can_scatter();
  FlatGradients::Owners own{std::move(owners), place_.own(), divides ? place_.shards : 1};
  const auto gradients =
      std::make_shared<FlatGradients>(std::move(parameters), place_.count, check, std::move(own));
  Part part{gradients, summand_of(gradients->parameters(), gradients->size()), {}, {}};
  gradients->use(sum_.make_buffer(place_.replica, gradients->size(), options, part.summand));
  if (gradients->flat().is_cpu()) watch(part);
  return part;
}

void OverlappedSum::watch(Part& part) {
  using torch::autograd::variable_list;
  const std::vector<NamedTensor>& parameters = part.gradients->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i].second;
    const auto node = torch::autograd::impl::grad_accumulator(parameter);
    // Newer LibTorch counts its nodes by an intrusive_ptr.
    part.nodes.push_back(std::make_shared<std::decay_t<decltype(node)>>(node));
    // A graph may live longer than the gradients' part, and than this object.
    node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, gradients = std::weak_ptr(part.gradients), i](const variable_list& outputs,
                                                             const variable_list&) {
          if (const auto here = gradients.lock()) arrived(*here, i);
          return outputs;
        }));
  }
}

/// What a pass that has failed left behind ends here.
void OverlappedSum::start(std::shared_ptr<const Set> set, Way way) {
  if (pass_.way == Way::buckets) thread_.cancel();
  phase_ = Phase::idle;
  if (pass_.set != nullptr) {
    for (const Part& part : pass_.set->parts) part.gradients->start();
  }
  pass_ = {};
  pass_.set = std::move(set);
  pass_.way = way;
  const std::vector<Part>& parts = pass_.set->parts;
  const bool divided = std::all_of(parts.begin(), parts.end(),
                                   [](const Part& part) { return part.gradients->is_divided(); });
  if (divided && !pass_.set->wants_all) pass_.sums = FlatGradients::Sums::own;
}

void OverlappedSum::begin_backward(const std::vector<NamedTensor>& parameters,
                                   const Backward& backward) {
  const std::shared_ptr<const Set> set = set_of(parameters);
  const bool in_buckets = set->way == Way::buckets && !backward.sums_layers;
  start(set, in_buckets ? Way::buckets : Way::whole);
  // A pass that may leave nothing must not give anything to the others.
  if (!backward.counts) return;
  phase_ = Phase::filling;
  if (!in_buckets) return;
  const Part& part = set->parts.front();
  for (const auto& bucket : part.gradients->plan().buckets) {
    pass_.missing.push_back(bucket.parameters);
  }
  thread_.begin([this, &part](std::size_t k) { sum_bucket(part, k, part.buckets[k]); });
  phase_ = Phase::summing;
}

void OverlappedSum::arrived(FlatGradients& gradients, std::size_t parameter) {
  if (phase_ == Phase::idle) return;
  const FlatGradients::Taken taken = gradients.take(parameter);
  if (taken == FlatGradients::Taken::again && pass_.in_pieces.empty()) {
    pass_.in_pieces = gradients.parameters()[parameter].first;
  }
  if (taken != FlatGradients::Taken::first) return;
  pass_.order.push_back(parameter);
  if (phase_ != Phase::summing) return;
  --pass_.missing[gradients.plan().bucket_of[parameter]];
  const std::size_t before = pass_.complete;
  // The last bucket waits for the flags, which are known when backward is over.
  while (pass_.complete + 1 < pass_.missing.size() && pass_.missing[pass_.complete] == 0) {
    ++pass_.complete;
  }
  if (pass_.complete > before) thread_.release(pass_.complete);
}

void OverlappedSum::reduce(const std::vector<NamedTensor>& parameters) {
  const std::shared_ptr<Set> known = set_of(parameters);
  Set& set = *known;
  if (pass_.set != known) start(known, Way::whole);
  bool finite = true;
  set.wants_all = set.parts.empty();
  for (const Part& part : set.parts) {
    part.gradients->fill(keeps_gradients_);
    if (pass_.way == Way::buckets) {
      sum_buckets(part);
    } else {
      phase_ = Phase::idle;
      sum_whole(part);
    }
    const auto outcome = part.gradients->give_back(pass_.sums);
    finite = outcome.finite && finite;
    set.wants_all = outcome.wants_all || set.wants_all;
  }
  has_all_gradients_ = pass_.sums == FlatGradients::Sums::all;
  if (!finite && has_all_gradients_) check_finite_gradients(parameters);
  if (!finite && !has_all_gradients_) {
    check_finite_gradients(parameters, [&](const at::Tensor& found) {
      sum_.add_up(place_.replica, found, Summand("gradients that are not finite"));
    });
  }
  if (set.way == Way::undecided) decide(set);
  pass_ = {};
}

void OverlappedSum::sum_whole(const Part& part) {
  const FlatGradients& gradients = *part.gradients;
  if (pass_.sums == FlatGradients::Sums::all) return add_up(part);
  for (std::size_t k = 0; k < gradients.plan().buckets.size(); ++k) {
    sum_bucket(part, k, part.summand);
  }
  sum_.add_up(place_.replica, gradients.flags(), part.summand);
}

/// Thread: also thread_'s.
void OverlappedSum::sum_bucket(const Part& part, std::size_t k, const Summand& summand) {
  const FlatGradients& gradients = *part.gradients;
  if (pass_.sums == FlatGradients::Sums::all) {
    return sum_.add_up(place_.replica, gradients.bucket(k), summand);
  }
  const Parts own{gradients.plan().buckets[k].ends, gradients.owners().own};
  sum_.reduce_scatter(place_.replica, gradients.bucket(k), own, summand);
}

/// The buckets that the thread has not reached.
void OverlappedSum::sum_buckets(const Part& part) {
  const Phase phase = std::exchange(phase_, Phase::idle);
  std::size_t next = 0;
  if (phase == Phase::summing) next = sum_.waits().during([&] { return thread_.finish(); });
  if (!pass_.in_pieces.empty()) {
    throw ConfigError(text("the gradient of parameter \"", pass_.in_pieces,
                           "\" was added to after its sum over the workers had begun."),
                      "use --overlap off.");
  }
  for (; next < part.buckets.size(); ++next) sum_bucket(part, next, part.buckets[next]);
  const FlatGradients& gradients = *part.gradients;
  if (gradients.is_divided()) sum_.add_up(place_.replica, gradients.flags(), part.summand);
}

/// Collective, where gradients may travel in buckets: they do so in the order in which the first
/// worker's were made (it is empty where that had none), if nowhere one came in pieces.
void OverlappedSum::decide(Set& set) {
  set.way = Way::whole;
  if (set.parts.size() != 1 || !sum_.overlaps()) return;
  Part& part = set.parts.front();
  FlatGradients& gradients = *part.gradients;
  const std::vector<std::int64_t> sizes = gradients.sizes();
  const std::int64_t value = static_cast<std::int64_t>(gradients.flat().element_size());
  const BucketSizes limits{std::min(options_.first_bytes, options_.bytes) / value,
                           options_.bytes / value};
  if (plan_buckets(sizes, {}, limits).buckets.size() == 1) return;
  const at::Tensor seen =
      torch::zeros({2 + static_cast<std::int64_t>(sizes.size())}, torch::kFloat64);
  double* values = seen.data_ptr<double>();
  values[0] = pass_.in_pieces.empty() ? 0 : 1;
  if (place_.first == 0) {
    values[1] = static_cast<double>(pass_.order.size());
    std::copy(pass_.order.begin(), pass_.order.end(), values + 2);
  }
  sum_.add_up(place_.replica, seen, Summand(text("the order of ", part.summand.what)));
  if (values[0] != 0) return;
  const std::vector<std::size_t> order(values + 2,
                                       values + 2 + static_cast<std::size_t>(values[1]));
  gradients.use(plan_buckets(sizes, order, limits));
  const std::size_t count = gradients.plan().buckets.size();
  if (count == 1) return;
  for (std::size_t k = 0; k < count; ++k) {
    part.buckets.emplace_back(text(part.summand.what, ", bucket ", k + 1, " of ", count),
                              part.summand.gradients);
  }
  set.way = Way::buckets;
}

void OverlappedSum::step(const std::string& name, torch::optim::Optimizer& optimizer,
                         const std::vector<NamedTensor>& parameters) {
  if (stepped_.insert(name).second) check_has_gradient(name, parameters);
  for (const Part& part : set_of(parameters)->parts) {
    if (const std::string* const sparse = part.gradients->sparse()) {
      check_takes_sparse(optimizer, name, *sparse);
    }
  }
  const auto take = [&] {
    if (!options_.fused_step) {
      optimizer.step();
    } else if (parameters.front().second.is_cpu() || !step_by_foreach(optimizer)) {
      step_by_blocks(optimizer);
    }
  };
  if (place_.shards == 1) return take();
  sharded_.step(name, parameters, place_, take);
}

void OverlappedSum::sum(const at::Tensor& flat, const std::string& what) {
  if (phase_ == Phase::summing) {
    throw ConfigError(text(what, " is in backward, and no sum was in the forward pass."),
                      "use --overlap off.");
  }
  sum_.add_up(place_.replica, flat, Summand(what));
}

void OverlappedSum::forget() {
  thread_.cancel();
  phase_ = Phase::idle;
  pass_ = {};
  sets_.clear();
  stepped_.clear();
  sharded_.forget();
}

}  // namespace troupe::detail
