// The hooks of a program on each strategy, ranks and servers as threads of this process.
#pragma once

#include "tests/programs/elastic_column.h"
#include "tests/programs/program.h"

namespace troupe::programs {

/// What a training came to, or how it ended.
struct Outcome {
  Result result;
  std::string error;  // "": none
};
/// `column`: any but elastic.
[[nodiscard]] Outcome train_in(Column column, const Program& program);

/// As one worker of an elastic group, which has other processes. The victim does not return.
[[nodiscard]] Outcome train_elastic(const Program& program, const ElasticWorker& worker);

/// The shares and parts that the column's strategy cuts batches into.
[[nodiscard]] Shares shares_in(Column column);

/// "" if the two are equal within 1e-9, losses (where they are known), metric and tensors; else
/// what is not.
[[nodiscard]] std::string difference(const Result& got, const Result& expected);

}  // namespace troupe::programs
