#include "troupe/hooks/tensors/value_sums.h"

#include <torch/types.h>

namespace troupe::detail {
namespace {

at::ScalarType integer_like(const at::Tensor& values) {
  switch (values.element_size()) {
    case 1:
      return at::kChar;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

}  // namespace

ValueSum value_sum(const at::Tensor& tensor) {
  at::Tensor values = tensor.detach();
  if (values.is_sparse()) values = values._values();
  if (values.is_complex()) values = at::view_as_real(values);
  if (!values.is_contiguous()) values = values.contiguous();
  values = values.view(integer_like(values)).reshape({-1});
  at::Tensor sum = torch::zeros({}, values.options().dtype(at::kLong));
  // In pieces: LibTorch sums a copy of twice the size.
  for (const at::Tensor& piece : values.split(1 << 20)) sum += piece.sum(at::kLong);
  // The host waits for the device here.
  return {static_cast<std::int64_t>(tensor._version()), sum.item<std::int64_t>()};
}

}  // namespace troupe::detail
