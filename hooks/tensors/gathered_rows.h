// Rows of all replicas, with gradients that flow back to the replica that made them: what
// Replica::all_gather does, given a way to sum over the replicas.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::detail {

/// Replaces `flat` [n], contiguous, float32 or float64, by its sum over all replicas. `what` names
/// it in messages. Collective.
using SumOverReplicas = std::function<void(const at::Tensor& flat, const std::string& what)>;

/// A replica among those whose rows are gathered.
struct RowsPlace {
  int index = 0;
  int count = 1;
  bool has_rows = true;  // false: what it brings is borrowed
};

struct GatheredRows {
  at::Tensor rows;         // of all replicas, in the order of their indices
  std::int64_t begin = 0;  // of this replica's; 0 if it has none
};

/// `own` [B, ...] of every replica, bit for bit. With gradients if they are on and `own` has them:
/// backward sums those of all replicas' uses. `sum` is called twice here, and once in backward.
/// Shapes: B may differ between replicas. Collective: yes, with the same type and the same other
/// dimensions everywhere.  Throws: ConfigError for a tensor without rows, a type that is not
/// gathered (complex, quantised, sparse), and a second derivative; as `sum`.
[[nodiscard]] GatheredRows gather_rows(const at::Tensor& own, const RowsPlace& place,
                                       const SumOverReplicas& sum);

}  // namespace troupe::detail
