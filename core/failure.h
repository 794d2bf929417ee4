// Errors that Troupe alone throws, and tells apart. Programs catch Error, and ask for its kind()
// and exit_code().
#pragma once

#include <string>
#include <utility>

#include "troupe/core/error.h"

namespace troupe {

/// What is thrown through the program's code without being a failure of it: such as the end of a
/// program that has printed its help.
struct ControlFlow {};

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

/// Two workers called different collectives at the same place: rank-dependent control flow.
class DesyncError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "desync"; }
};

/// Another process or machine failed. Start the whole group again.
class NetError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitPeerLost; }
};

/// Training was over before this worker could take part in it again: nothing is wrong, and nothing
/// is left to do.
class NothingLeft final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "nothing-left"; }
  [[nodiscard]] int exit_code() const noexcept override { return 0; }
};

/// A TROUPE_CHECK failed: our bug.
class InternalError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "internal"; }
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

/// A hook is not written yet.
class TodoError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "todo"; }
  [[nodiscard]] int exit_code() const noexcept override { return kExitUsage; }
};

/// Training ended, and an exporter had failed: a model that was to be exported is missing. The
/// checkpoints and the evaluations are complete.
class ExportError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "export"; }
};

}  // namespace troupe
