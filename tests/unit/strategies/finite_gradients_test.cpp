#include <torch/types.h>

#include <limits>

#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/gradients/flat_gradients.h"

namespace {

/// A table of 5 rows with a sparse gradient of two.
troupe::NamedTensor table(float value) {
  auto rows = torch::zeros({5, 2}, torch::requires_grad());
  const auto indices = torch::tensor({{1, 3}}, torch::kInt64);
  rows.mutable_grad() =
      torch::sparse_coo_tensor(indices, torch::tensor({{1.0F, 2.0F}, {3.0F, value}}), {5, 2});
  return {"rows", rows};
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("finite_gradients: sparse ones are looked at by their values") {
    troupe::detail::check_finite_gradients({table(4)});
    troupe::detail::check_finite_gradients({table(std::numeric_limits<float>::max())});
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      CHECK_THROWS_WITH_AS(troupe::detail::check_finite_gradients({table(bad)}),
                           doctest::Contains("parameter \"rows\" is not finite"),
                           troupe::NonFiniteError);
    }
  }
}
