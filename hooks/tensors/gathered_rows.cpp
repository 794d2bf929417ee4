// Rows travel as a sum: each replica fills its part of all rows, and the rest with -0, which
// changes no bit of what is added to it (IEEE 754: x + -0 is x, for +0 and -0, too). So whatever
// sums gradients gathers, at the bytes of a sum.
#include "troupe/hooks/tensors/gathered_rows.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kHalf = 32;  // bits: what float64 holds exactly

/// What values of a type are summed as.
at::ScalarType summed_type(at::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
    case torch::kFloat16:
    case torch::kBFloat16:
      return torch::kFloat32;
    case torch::kFloat64:
    case torch::kInt64:
    case torch::kInt32:
    case torch::kInt16:
    case torch::kInt8:
    case torch::kUInt8:
    case torch::kBool:
      return torch::kFloat64;
    default:
      throw ConfigError(text("all_gather was given a tensor of ", c10::toString(type), "."),
                        "give it real numbers, integers or booleans; of complex numbers "
                        "torch::view_as_real(tensor).");
  }
}

/// The values of a row.
std::int64_t width_of(const at::Tensor& rows) {
  return c10::multiply_integers(rows.sizes().slice(1));
}

/// [B, ...] as [B, width] of its summed_type(), an integer of 64 bits as two numbers; and back.
at::Tensor to_numbers(const at::Tensor& rows) {
  const at::Tensor flat = rows.reshape({rows.size(0), width_of(rows)});
  if (rows.scalar_type() != torch::kInt64) return flat.to(summed_type(rows.scalar_type()));
  const at::Tensor high = flat.__rshift__(kHalf);
  return torch::cat({high, flat - high.__lshift__(kHalf)}, 1).to(torch::kFloat64);
}
at::Tensor to_rows(const at::Tensor& numbers, const at::Tensor& like) {
  at::Tensor rows = numbers.to(like.scalar_type());
  if (like.scalar_type() == torch::kInt64) {
    const std::int64_t width = width_of(like);
    rows = rows.narrow(1, 0, width).__lshift__(kHalf) + rows.narrow(1, width, width);
  }
  auto sizes = like.sizes().vec();
  sizes[0] = numbers.size(0);
  return rows.reshape(sizes);
}

/// Where this replica's rows are among all, and how to sum over the replicas.
struct Gathering final : torch::CustomClassHolder {
  SumOverReplicas sum;
  std::string what;
  bool has_rows = true;
  std::int64_t begin = 0;
  std::int64_t own = 0;  // rows; 0: none count
  std::int64_t all = 0;
};

at::Tensor rows_of_all(const at::Tensor& own, const Gathering& gathering) {
  const at::Tensor numbers = to_numbers(own);
  const at::Tensor flat = torch::full({gathering.all, numbers.size(1)}, -0.0, numbers.options());
  flat.narrow(0, gathering.begin, gathering.own).copy_(numbers.narrow(0, 0, gathering.own));
  gathering.sum(flat.view({-1}), gathering.what);
  return to_rows(flat, own);
}

class GatherRows final : public torch::autograd::Function<GatherRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& own,
                            const c10::intrusive_ptr<Gathering>& gathering) {
    context->saved_data["gathering"] = c10::IValue::make_capsule(gathering);
    context->saved_data["rows"] = own.size(0);
    return rows_of_all(own, *gathering);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw ConfigError("all_gather has no second derivative.",
                        "gather what the loss takes gradients of without their graph.");
    }
    const at::Tensor& all = gradients[0];
    const auto gathering = context->saved_data["gathering"].toCapsule();
    const auto& place = static_cast<const Gathering&>(*gathering);
    at::Tensor sum = all.to(summed_type(all.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
    sum = sum.contiguous();
    if (!place.has_rows) sum.zero_();
    place.sum(sum.view({-1}), "backward of " + place.what);
    auto sizes = all.sizes().vec();
    sizes[0] = context->saved_data["rows"].toInt();
    at::Tensor own = torch::zeros(sizes, all.options());
    own.narrow(0, 0, place.own).copy_(sum.narrow(0, place.begin, place.own));
    return {own, at::Tensor()};
  }
};

}  // namespace

GatheredRows gather_rows(const at::Tensor& own, const RowsPlace& place,
                         const SumOverReplicas& sum) {
  if (!own.defined() || own.dim() == 0 || own.layout() != torch::kStrided || own.is_quantized()) {
    throw ConfigError("all_gather was given a tensor without rows, a sparse or a quantised one.",
                      "give it a dense [B, ...]; of one number number.view({1}).");
  }
  (void)summed_type(own.scalar_type());
  const bool has_gradients = own.requires_grad() && at::GradMode::is_enabled();
  if (place.count == 1) return {has_gradients ? own : own.detach(), 0};
  const auto gathering = c10::make_intrusive<Gathering>();
  gathering->sum = sum;
  gathering->what = text("all_gather of rows ", own.sizes().slice(1), " of ",
                         c10::toString(own.scalar_type()), has_gradients ? " with gradients" : "");
  gathering->has_rows = place.has_rows;
  gathering->own = place.has_rows ? own.size(0) : 0;
  const at::Tensor counts =
      torch::zeros({place.count}, torch::dtype(torch::kFloat64).device(own.device()));
  counts[place.index].fill_(static_cast<double>(gathering->own));
  sum(counts, "count for " + gathering->what);
  const at::Tensor ends = counts.to(torch::kCPU).cumsum(0).to(torch::kInt64);
  gathering->all = ends[-1].item<std::int64_t>();
  if (place.has_rows) gathering->begin = ends[place.index].item<std::int64_t>() - gathering->own;
  const at::Tensor rows =
      has_gradients ? GatherRows::apply(own, gathering) : rows_of_all(own.detach(), *gathering);
  return {rows, gathering->begin};
}

}  // namespace troupe::detail
