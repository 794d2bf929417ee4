// Errors: one class per kind of failure (those that programs throw, too, are here, the others in
// core/failure.h), each with a sentence for the cause, a sentence for the
// fix, and the process's exit code. docs/errors.md has a section per kind().
//
// Exit codes 1-127 are permanent (fix something first), 128-255 may be retried as they are: the
// split that Kubernetes job controllers use.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

inline constexpr int kExitFailed = 1;       // the run failed: data, hooks, our own bug
inline constexpr int kExitUsage = 2;        // options, cluster or hooks are wrong; nothing started
inline constexpr int kExitEnvironment = 3;  // the machine is not ready
inline constexpr int kExitPeerLost = 138;   // another process is gone; start the group again
inline constexpr int kExitSignal = 128;     // + the number of the signal that stopped the run

/// Base of everything Troupe throws. `what()` is "<cause> Fix: <fix>", one line.
class Error : public std::runtime_error {
 public:
  Error(const std::string& cause, std::string fix)
      : std::runtime_error(cause + (fix.empty() ? "" : " Fix: " + fix)),
        cause_(cause),
        fix_(std::move(fix)) {}

  [[nodiscard]] const std::string& cause() const noexcept { return cause_; }
  [[nodiscard]] const std::string& fix() const noexcept { return fix_; }
  /// Short name of the class of failure; the anchor in docs/errors.md.
  [[nodiscard]] virtual const char* kind() const noexcept = 0;
  [[nodiscard]] virtual int exit_code() const noexcept { return kExitFailed; }

 private:
  std::string cause_;
  std::string fix_;
};

/// The user's options, TF_CONFIG, cluster or hooks are wrong. Nothing was started.
class ConfigError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "config"; }
  [[nodiscard]] int exit_code() const noexcept override { return kExitUsage; }
};

/// The machine is not ready: port taken, directory not writable, library missing.
class EnvironmentError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "environment"; }
  [[nodiscard]] int exit_code() const noexcept override { return kExitEnvironment; }
};

/// Input missing, truncated or of the wrong shape.
class DataError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "data"; }
};

}  // namespace troupe
