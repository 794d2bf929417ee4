// The hooks of a program on each strategy, ranks and servers as threads of this process.
#pragma once

#include "tests/programs/processes.h"
#include "tests/programs/program.h"

namespace troupe::programs {

/// What a training came to, or how it ended.
struct Outcome {
  Result result;
  std::string error;  // "": none
};
/// A job whose processes may be threads. A training has one, or two that follow each other.
struct Stage {
  int processes = 1;
  /// Process 0 keeps what it sees, and adds to its losses.
  std::function<void(int process, Result& result)> run;
  std::shared_ptr<void> keeps = nullptr;  // files
};
/// `column`: any but elastic. `program` outlives the result.
[[nodiscard]] std::vector<Stage> stages_of(Column column, const Program& program);
/// Those, by threads.
[[nodiscard]] Outcome train_in(Column column, const Program& program);

/// As one worker of an elastic group, which has other processes. The victim does not return.
[[nodiscard]] Outcome train_elastic(const Program& program, const ElasticWorker& worker);

/// Servers aside.
[[nodiscard]] int workers_in(Column column);

/// The shares and parts that the column's strategy cuts batches into.
[[nodiscard]] Shares shares_in(Column column);

/// Of the column's forward passes; autocast leaves float64 alone.
[[nodiscard]] Precision precision_in(Column column);
/// How far a result may be from its reference.
[[nodiscard]] double tolerance_in(Column column);

/// "" if the two are equal within `tolerance`, losses (where they are known), metric and tensors;
/// else what is not.
[[nodiscard]] std::string difference(const Result& got, const Result& expected, double tolerance);

}  // namespace troupe::programs
