#include "strategies/gradients/gradient_buckets.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "strategies/gradients/finite_gradients.h"
#include "strategies/gradients/optimizer_step.h"

namespace troupe {
namespace {

// In units of a first bucket. Within a machine less than that gains nothing: a step of the MNIST
// network, of 1.4 MB, took 13.2 ms overlapped and 13.4 without (docs/performance.md). Between
// machines the network decides, so it is tried.
constexpr std::int64_t kWorthTrying = 4;

void check_dtypes(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    const auto dtype = parameter.scalar_type();
    if (dtype == torch::kFloat32 || dtype == torch::kFloat64) continue;
    throw ConfigError(text("parameter \"", name, "\" is ", dtype,
                           "; gradients are summed over replicas in float32 and float64."),
                      "keep the parameters in float32.");
  }
}

/// Two optimisers may begin with the same parameter, and be of the same size.
detail::Summand summand_of(const std::vector<NamedTensor>& parameters, std::int64_t size) {
  const auto& [first_name, first] = parameters.front();
  const std::string& last_name = parameters.back().first;
  std::int64_t values = 0;
  for (const auto& [name, parameter] : parameters) values += parameter.numel();
  return {text("apply_gradients (", parameters.size(), " parameters from \"", first_name,
               "\" to \"", last_name, "\", ", values, " ", first.scalar_type(), " values)"),
          text(first_name, "/", last_name, "/", first.scalar_type(), "/", size)};
}

}  // namespace

GradientBuckets::Set& GradientBuckets::set_of(const std::vector<NamedTensor>& parameters) {
  std::vector<const void*> key;
  key.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters) key.push_back(parameter.unsafeGetTensorImpl());
  const auto found = sets_.find(key);
  if (found != sets_.end()) return found->second;
  check_dtypes(parameters);
  Set set;
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    std::vector<NamedTensor> alike;
    for (const NamedTensor& parameter : parameters) {
      if (parameter.second.scalar_type() == dtype) alike.push_back(parameter);
    }
    if (!alike.empty()) set.parts.push_back(make_part(std::move(alike)));
  }
  return sets_[key] = std::move(set);
}

GradientBuckets::Part GradientBuckets::make_part(std::vector<NamedTensor> parameters) {
  const at::TensorOptions options =
      at::TensorOptions(parameters.front().second.options()).requires_grad(false);
  Part part;
  part.gradients =
      std::make_shared<detail::FlatGradients>(std::move(parameters), place_.count, sum_.is_exact());
  part.summand = summand_of(part.gradients->parameters(), part.gradients->size());
  part.gradients->use(
      sum_.make_buffer(place_.replica, part.gradients->size(), options, part.summand));
  return part;
}

bool GradientBuckets::can_overlap(const Set& set) {
  return !set.in_pieces && set.parts.size() == 1 &&
         set.parts.front().gradients->plan().buckets.size() > 1;
}

void GradientBuckets::begin_backward(const std::vector<NamedTensor>& parameters,
                                     const Backward& backward) {
  if (parameters.empty()) return;
  Set& set = set_of(parameters);
  thread_.cancel();
  if (armed_ != nullptr) {  // a backward pass has failed
    for (const Part& part : armed_->parts) part.gradients->disarm();
  }
  armed_ = &set;
  set.overlaps = choice_.on() && can_overlap(set) && !backward.sums_layers;
  for (const Part& part : set.parts) {
    part.gradients->disarm();
    // A pass that may leave nothing must not give anything to the others.
    if (!backward.counts) continue;
    if (set.overlaps) thread_.begin([this, &part](std::size_t k) { reduce_bucket(part, k); });
    // The last bucket waits for the flags, which are known when backward is over.
    const std::size_t last = part.gradients->plan().buckets.size() - 1;
    part.gradients->arm([this, last, overlaps = set.overlaps](std::size_t complete) {
      if (overlaps) thread_.release(std::min(complete, last));
    });
  }
}

void GradientBuckets::reduce(const std::vector<NamedTensor>& parameters) {
  if (parameters.empty()) return;
  Set& set = set_of(parameters);
  armed_ = nullptr;
  bool finite = true;
  for (const Part& part : set.parts) {
    part.gradients->fill();
    if (std::exchange(set.overlaps, false)) {
      reduce_overlapped(part);
    } else {
      sum_.add_up(place_.replica, part.gradients->flat(), part.summand);
    }
    finite = part.gradients->give_back() && finite;
  }
  if (!finite) detail::check_finite_gradients(parameters);
  if (!set.planned) plan(set);
}

void GradientBuckets::reduce_bucket(const Part& part, std::size_t bucket) {
  const std::size_t count = part.gradients->plan().buckets.size();
  sum_.add_up(
      place_.replica, part.gradients->bucket(bucket),
      {text(part.summand.what, ", bucket ", bucket + 1, " of ", count), part.summand.gradients});
}

void GradientBuckets::reduce_overlapped(const Part& part) {
  std::size_t next = thread_.finish();
  if (!part.gradients->in_pieces().empty()) {
    throw ConfigError(text("the gradient of parameter \"", part.gradients->in_pieces(),
                           "\" came in several pieces, the later ones after it was on its way."),
                      "use --overlap off.");
  }
  for (; next < part.gradients->plan().buckets.size(); ++next) reduce_bucket(part, next);
}

void GradientBuckets::plan(Set& set) {
  set.planned = true;
  detail::FlatGradients& gradients = *set.parts.front().gradients;
  const std::vector<std::int64_t> sizes = gradients.sizes();
  const std::int64_t value = static_cast<std::int64_t>(gradients.flat().element_size());
  const detail::BucketSizes limits{std::min(options_.first_bytes, options_.bytes) / value,
                                   options_.bytes / value};
  const bool pays =
      set.parts.size() == 1 && detail::plan_buckets(sizes, {}, limits).buckets.size() > 1;
  if (options_.overlap == Overlap::off || !pays || !sum_.can_overlap()) return;
  // What the first worker saw is everybody's order, a stand-in saw nothing; and what it takes the
  // machines for decides for all.
  const bool worth_it = options_.overlap == Overlap::on || !place_.one_machine ||
                        gradients.values() >= kWorthTrying * limits.first;
  const auto count = static_cast<std::int64_t>(sizes.size());
  const at::Tensor seen = torch::zeros({3 + count}, torch::kFloat64);
  double* values = seen.data_ptr<double>();
  values[0] = gradients.in_pieces().empty() ? 0 : 1;
  if (place_.first == 0) {
    values[1] = worth_it ? 1 : 0;
    values[2] = static_cast<double>(gradients.order().size());
    std::copy(gradients.order().begin(), gradients.order().end(), values + 3);
  }
  sum_.add_up(place_.replica, seen, {text("the order of ", set.parts.front().summand.what), ""});
  set.in_pieces = values[0] != 0;
  if (values[1] == 0) return;
  std::vector<std::size_t> order;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values[2]); ++i) {
    order.push_back(static_cast<std::size_t>(values[3 + i]));
  }
  gradients.use(detail::plan_buckets(sizes, order, limits));
}

void GradientBuckets::step(const std::string& /*name*/, torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& /*parameters*/) {
  detail::take_step(optimizer, options_.fused_step);
}

void GradientBuckets::sum(const at::Tensor& flat, const std::string& what) {
  if (armed_ != nullptr && armed_->overlaps) {
    throw ConfigError(text(what, " is in backward, and no sum was in the forward pass."),
                      "use --overlap off.");
  }
  sum_.add_up(place_.replica, flat, {what, ""});
}

void GradientBuckets::end_step(double seconds) {
  const auto some = [](const auto& entry) { return can_overlap(entry.second); };
  choice_.add(seconds, std::any_of(sets_.begin(), sets_.end(), some));
  if (!choice_.is_due()) return;
  std::array<double, 3> findings = choice_.findings();
  const at::Tensor sums = torch::from_blob(findings.data(), {3}, torch::kFloat64);
  sum_.add_up(place_.replica, sums, {"the choice of --overlap", ""});
  const std::string verdict = choice_.decide(findings, place_.count);
  if (place_.first == 0) log_info(verdict);
}

void GradientBuckets::forget() {
  thread_.cancel();
  armed_ = nullptr;
  sets_.clear();
  choice_ = detail::OverlapChoice(options_.overlap);
}

}  // namespace troupe
