// Evaluator presence: by the lock file `.troupe-evaluator` of a model directory the chief knows
// whether an evaluator is at work; cluster descriptions often do not say.
#pragma once

#include <memory>
#include <string>

#include "core/file_system.h"
#include "estimator/roles/sleeper.h"

namespace troupe {

/// Held by the evaluator as long as it lives.
class EvaluatorPresence {
 public:
  /// Makes the model directory where it is missing. Blocks: a second, where the lock is taken.
  /// Throws: EnvironmentError where another evaluator is at work there.
  EvaluatorPresence(const std::string& model_dir, Sleeper& sleeper);

 private:
  PosixFileSystem files_;
  std::unique_ptr<FileLock> lock_;
};

/// Looks by taking the lock for a moment, so the chief alone asks. On a network file system without
/// locks between machines: false.
[[nodiscard]] bool evaluator_is_present(const std::string& model_dir);

}  // namespace troupe
