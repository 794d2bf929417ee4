#include "estimator/roles/evaluator_presence.h"

#include "core/error.h"

namespace troupe {
namespace {

constexpr const char* kLockName = ".troupe-evaluator";
constexpr int kPresenceTries = 10;
constexpr Seconds kPause{0.1};

}  // namespace

EvaluatorPresence::EvaluatorPresence(const std::string& model_dir, Sleeper& sleeper)
    : files_(model_dir) {
  files_.create_root();
  for (int tries = 0; !lock_ && tries < kPresenceTries; ++tries) {
    if (tries > 0) sleeper.sleep(kPause);  // a chief that looks holds the lock for a moment
    lock_ = files_.try_lock(kLockName);
  }
  if (!lock_) {
    throw EnvironmentError("another evaluator is at work in " + model_dir + ".",
                           "start one evaluator per model directory.");
  }
}

bool evaluator_is_present(const std::string& model_dir) {
  PosixFileSystem files(model_dir);
  if (!files.status("") || !files.status(kLockName)) return false;
  return files.try_lock(kLockName) == nullptr;
}

}  // namespace troupe
