// Errors: one class per kind of failure, each with a sentence for the cause, a sentence for the
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

/// What is thrown through the program's code without being a failure of it: such as the end of a
/// program that has printed its help.
struct ControlFlow {};

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

/// A checkpoint could not be written, read or verified. Earlier ones are unchanged.
class CheckpointError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "checkpoint"; }
};

/// Code of the program's own threw, in a hook, a data set or a callback: what it was called for,
/// and what it says.
class HookError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "failed"; }
};

/// A loss or gradient is not finite. Raised on every rank alike, for a gradient before the
/// optimiser step; the code that throws it ensures that all do.
class NonFiniteError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "non-finite"; }
};

/// SIGTERM, SIGINT or SIGHUP (`signal`): the run stopped at a step that all workers agreed on, and
/// its state is saved. The exit code is a shell's for that signal: 143, 130 or 129.
class Stopped final : public Error {
 public:
  Stopped(const std::string& cause, std::string fix, int signal)
      : Error(cause, std::move(fix)), exit_code_(kExitSignal + signal) {}
  [[nodiscard]] const char* kind() const noexcept override { return "stopped"; }
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// Training was over before this worker could take part in it again: nothing is wrong, and nothing
/// is left to do.
class NothingLeft final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "nothing-left"; }
  [[nodiscard]] int exit_code() const noexcept override { return 0; }
};

/// Two workers called different collectives at the same place: rank-dependent control flow.
class DesyncError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "desync"; }
};

/// A TROUPE_CHECK failed: our bug.
class InternalError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "internal"; }
};

/// Another process or machine failed. Start the whole group again.
class NetError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitPeerLost; }
};

/// A worker died, stopped answering, or left without saying so.
class PeerLost final : public NetError {
 public:
  using NetError::NetError;
  [[nodiscard]] const char* kind() const noexcept override { return "peer-lost"; }
};

/// Another worker failed and said why: this process stops with that worker's exit code.
class PeerFailed final : public NetError {
 public:
  PeerFailed(const std::string& cause, std::string fix, int exit_code)
      : NetError(cause, std::move(fix)), exit_code_(exit_code) {}
  [[nodiscard]] const char* kind() const noexcept override { return "peer-failed"; }
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// A peer is alive but did not do its part within the deadline.
class TimeoutError final : public NetError {
 public:
  using NetError::NetError;
  [[nodiscard]] const char* kind() const noexcept override { return "timeout"; }
};

/// The group did not form.
class RendezvousError final : public NetError {
 public:
  using NetError::NetError;
  [[nodiscard]] const char* kind() const noexcept override { return "rendezvous"; }
};

}  // namespace troupe
