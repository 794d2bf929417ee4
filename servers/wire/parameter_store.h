// ParameterStore: what one server holds, and how an update changes it. The server decides when; the
// store does the arithmetic, behind this interface because distributed/ knows no tensors.
//
// Thread rule: the server's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/span.h"

namespace troupe {

/// Values, or a gradient, of some rows of one shard.
struct RowBlock {
  int shard = 0;
  bool all_rows = true;
  Span<const std::int64_t> rows;  // counted from the shard's first; empty with all_rows
  Span<const std::byte> values;   // row after row
};

/// What one worker pushes for one optimiser in one step.
struct Push {
  int optimizer = 0;
  std::vector<double> learning_rates;  // the worker's, by parameter group
  /// The examples behind these gradients, and those that their loss was divided by.
  std::int64_t examples = 0;
  std::int64_t global_examples = 0;
  std::vector<RowBlock> gradients;  // of shards that have one
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  /// Takes over values and optimiser state, as save() or the chief wrote them: `state` is hostile.
  /// Throws: ConfigError when they do not fit.
  virtual void load(Span<const std::byte> state) = 0;
  [[nodiscard]] virtual std::vector<std::byte> save() = 0;

  /// One step of one optimiser with the sum of these gradients, added in the order given, times
  /// `scale` where that is not 1. All pushes are for the same optimiser. A shard that none of them
  /// names has no gradient. Shapes of the blocks have been checked against the placement.
  virtual void apply(const std::vector<const Push*>& pushes, double scale) = 0;

  /// The present values of `rows` of a shard (all where empty), row after row.
  /// Shapes: `out` has rows x row_bytes.
  virtual void read(int shard, Span<const std::int64_t> rows, Span<std::byte> out) const = 0;
};

}  // namespace troupe
