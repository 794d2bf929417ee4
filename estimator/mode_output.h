// What the modes of a program print on stdout: JSON, one object a line.
#pragma once

#include <cstdint>
#include <string>

#include "estimator/prediction_stream.h"
#include "estimator/train_and_evaluate.h"

namespace troupe::detail {

/// A reader that has closed the pipe has what it wanted: what follows is not written.
enum class Reader { listens, gone };

/// All throw EnvironmentError where a line is lost otherwise.
Reader print_line(const std::string& line);
void print(const Evaluation& evaluation);
/// Nothing where nothing was evaluated.
void print(const TrainAndEvaluateResult& result);
/// The first `count` predictions, 0: all, as they are computed.
void print(PredictionStream predictions, std::int64_t count);

}  // namespace troupe::detail
