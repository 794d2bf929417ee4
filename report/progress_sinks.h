// Where a worker's progress goes: to its own terminal, or to the launcher that draws it for all.
#pragma once

#include "troupe/report/progress.h"

namespace troupe {

/// Names the descriptor, a socket that keeps messages apart (SOCK_SEQPACKET), to which the
/// processes of one launcher send to_line() of their progress.
inline constexpr const char* kProgressDescriptorVariable = "TROUPE_PROGRESS_FD";

/// Draws below the log on stderr, and erases when the last copy is destroyed. Empty: stderr is no
/// terminal that can show it.
[[nodiscard]] ProgressSink terminal_sink();

/// Sends to the launcher; never waits, and drops what it has no room for. Programs that this
/// process starts do not inherit the descriptor. Empty: no launcher wants it.
[[nodiscard]] ProgressSink launcher_sink();

}  // namespace troupe
