#include <cstring>
#include <vector>

#include "tests/support/serial_sum.h"
#include "tests/support/torch_prelude.h"
#include "troupe/strategies/gradients/replica_sum.h"
#include "troupe/strategies/tensor_sums.h"

namespace {

std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  const auto* const first = flat.data_ptr<float>();
  return {first, first + flat.numel()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("sum_in_rank_order: tensors are added along the tree of ranks, dense and sparse") {
    torch::manual_seed(7);
    for (const std::size_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
      CAPTURE(count);
      std::vector<std::vector<float>> serial;
      std::vector<at::Tensor> dense;
      std::vector<at::Tensor> sparse;
      for (std::size_t i = 0; i < count; ++i) {
        const at::Tensor values = torch::randn({5, 301}) / 3;
        serial.push_back(values_of(values));
        dense.push_back(values.clone());
        sparse.push_back(values.to_sparse(1));
      }
      const std::vector<float> expected = troupe::testing::serial_sum(serial);
      CHECK(same_bits(values_of(troupe::detail::sum_in_rank_order(dense)), expected));
      CHECK(same_bits(values_of(troupe::detail::sum_in_rank_order(sparse).to_dense()), expected));
    }
  }
}
