// StopSignal: SIGTERM as a request instead of an end, while there is something to save.
#pragma once

namespace troupe {

/// While it lives, SIGTERM is remembered instead of ending the process; then the former handling is
/// back. One at a time per process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Whether SIGTERM has come.
  [[nodiscard]] bool requested() const;
};

}  // namespace troupe
