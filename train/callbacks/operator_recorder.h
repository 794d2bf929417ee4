// LibTorch's operators as spans, by its own recorder: those of the thread that steps, and of the
// threads that work for its backward pass.
#pragma once

#include <memory>

#include "train/callbacks/profiler.h"

namespace troupe {

/// Null where this LibTorch lacks the recorder: a Profiler then shows the steps alone.
/// start() throws c10::Error while another profiler of LibTorch runs on the thread.
[[nodiscard]] std::unique_ptr<SpanRecorder> make_operator_recorder();

}  // namespace troupe
