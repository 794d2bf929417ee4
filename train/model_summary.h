// The parameters and buffers of a training's models as rows of facts, and as a table to read. The
// header is free of LibTorch: whoever shows the rows need not see a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

class Replica;

/// A parameter or a buffer of a model.
struct ParameterRow {
  std::string name;                 // as in checkpoints: "conv1.weight", "generator.conv1.weight"
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::int64_t count = 0;           // values
  std::int64_t bytes = 0;           // on the device
  std::string type;                 // "float32"
  bool is_buffer = false;           // has no gradient and no optimiser
  bool trained = false;             // an optimiser owns it, and it requires a gradient
  std::string optimizer;            // the one that owns it; empty: none
  std::string tied_to;              // the earlier row of the same tensor; empty: none
};

/// Of all models of `replica`: parameters first, then buffers, in the order of create_model. Reads
/// no values. Collective: no.
[[nodiscard]] std::vector<ParameterRow> parameter_rows(Replica& replica);

/// A line for each parameter group of each optimiser, with the options that it trains with:
/// LibTorch may have replaced what create_model said (docs/optimizers.md). A registered optimiser's
/// only.
[[nodiscard]] std::string optimizer_lines(Replica& replica);

/// Counts of rows; a tied row counts nothing.
struct ParameterTotals {
  std::int64_t trained = 0;
  std::int64_t frozen = 0;
  std::int64_t buffers = 0;
  std::int64_t bytes = 0;  // of all three
};
[[nodiscard]] ParameterTotals total(const std::vector<ParameterRow>& rows);

/// The rows as aligned lines of at most 80 columns, names shortened in their middle, with the
/// totals below; ends with a newline.
[[nodiscard]] std::string summary_table(const std::vector<ParameterRow>& rows);

}  // namespace troupe
