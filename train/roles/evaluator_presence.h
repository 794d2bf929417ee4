// Evaluator presence: by the lock file `.troupe-evaluator` of a model directory the chief knows
// whether an evaluator is at work; cluster descriptions often do not say.
#pragma once

#include <memory>
#include <string>

#include "core/file_system.h"

namespace troupe {

/// Held by the evaluator as long as it lives.
class EvaluatorPresence {
 public:
  /// Makes the model directory where it is missing.
  /// Throws: EnvironmentError where another evaluator is at work there.
  explicit EvaluatorPresence(const std::string& model_dir);

 private:
  PosixFileSystem files_;
  std::unique_ptr<FileLock> lock_;
};

/// On a network file system without locks between machines: false.
[[nodiscard]] bool evaluator_is_present(const std::string& model_dir);

}  // namespace troupe
