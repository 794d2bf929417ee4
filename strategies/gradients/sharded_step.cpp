#include "troupe/strategies/gradients/sharded_step.h"

#include <torch/types.h>

#include <utility>

#include "troupe/core/heap.h"
#include "troupe/core/text.h"
#include "troupe/strategies/gradients/optimizer_shards.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kLineBytes = 64;  // what LibTorch aligns memory of the CPU to

/// A view of the values from `begin` on with the parameter's shape and, as far as it is dense, its
/// order of elements, by which LibTorch chooses how to compute.
at::Tensor place_in(const at::Tensor& flat, std::int64_t begin, const at::Tensor& parameter) {
  // Below what tracks views: optimisers change parameters in place.
  const at::AutoDispatchBelowADInplaceOrView untracked;
  const at::Tensor values = flat.narrow(0, begin, parameter.numel());
  if (!parameter.is_non_overlapping_and_dense()) return values.view(parameter.sizes());
  return values.as_strided(parameter.sizes(), parameter.strides(), values.storage_offset());
}

}  // namespace

ShardedStep::Layout ShardedStep::make_layout(const std::string& name,
                                             const std::vector<NamedTensor>& parameters,
                                             const Place& place) {
  const torch::NoGradGuard no_grad;
  Layout layout{owners_of(parameters, place.shards), {}};
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    Parts parts{{}, place.own()};
    std::vector<std::size_t> alike;
    std::vector<std::int64_t> begins;
    std::int64_t end = 0;
    for (int owner = 0; owner < place.shards; ++owner) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const at::Tensor& parameter = parameters[i].second;
        if (layout.owners[i] != owner || parameter.scalar_type() != dtype) continue;
        alike.push_back(i);
        begins.push_back(end);
        const std::int64_t line = kLineBytes / static_cast<std::int64_t>(parameter.element_size());
        end += (parameter.numel() + line - 1) / line * line;
      }
      parts.ends.push_back(end);
    }
    if (alike.empty()) continue;
    const at::TensorOptions options =
        at::TensorOptions(parameters[alike.front()].second.options()).requires_grad(false);
    Summand summand(text("new values of optimiser \"", name, "\" (", alike.size(), " parameters, ",
                         dtype, ")"));
    at::Tensor flat = sum_.make_buffer(place.replica, end, options, summand);
    std::vector<at::Tensor> places;
    for (std::size_t k = 0; k < alike.size(); ++k) {
      at::Tensor parameter = parameters[alike[k]].second;
      places.push_back(place_in(flat, begins[k], parameter));
      places.back().copy_(parameter);
      // Where nothing but the parameter uses its memory.
      if (parameter.storage().use_count() == 1 && parameter.is_non_overlapping_and_dense())
        parameter.set_data(places.back());
    }
    layout.values.push_back({std::move(flat), std::move(parts), std::move(alike), std::move(places),
                             std::move(summand)});
  }
  return layout;
}

void ShardedStep::step(const std::string& name, const std::vector<NamedTensor>& parameters,
                       const Place& place, const std::function<void()>& take) {
  auto known = layouts_.find(name);
  if (known == layouts_.end()) {
    known = layouts_.emplace(name, make_layout(name, parameters, place)).first;
    return_freed_memory();  // what the parameters had
  }
  const Layout& layout = known->second;
  std::vector<at::Tensor> theirs(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (layout.owners[i] == place.own()) continue;
    theirs[i] = std::exchange(parameters[i].second.mutable_grad(), at::Tensor());
  }
  take();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (layout.owners[i] == place.own()) continue;
    parameters[i].second.mutable_grad() = std::move(theirs[i]);
  }
  for (const Values& values : layout.values) share(values, layout, place, parameters);
}

void ShardedStep::share(const Values& values, const Layout& layout, const Place& place,
                        const std::vector<NamedTensor>& parameters) {
  const torch::NoGradGuard no_grad;
  const auto each_apart = [&](const auto& use) {
    for (std::size_t k = 0; k < values.parameters.size(); ++k) {
      const std::size_t i = values.parameters[k];
      at::Tensor parameter = parameters[i].second;
      if (parameter.data_ptr() != values.places[k].data_ptr()) {
        use(parameter, values.places[k], layout.owners[i] == place.own());
      }
    }
  };
  each_apart([](const at::Tensor& parameter, at::Tensor there, bool is_own) {
    if (is_own) there.copy_(parameter);
  });
  sum_.all_gather(place.replica, values.flat, values.parts, values.summand);
  each_apart([](at::Tensor parameter, const at::Tensor& there, bool is_own) {
    if (!is_own) parameter.copy_(there);
  });
}

}  // namespace troupe::detail
