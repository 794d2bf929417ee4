// What the launcher says about processes that ended badly: text only.
#pragma once

#include <deque>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/launcher/run/launch_child.h"

namespace troupe {

/// One process at its end.
struct EndedProcess {
  std::string name;  // "worker/1"
  ChildEnd end;
  Seconds ran{0};
  std::deque<std::string> last_lines = {};
  std::string log_path = {};  // empty: none
};

/// "3.2 s"
[[nodiscard]] std::string seconds_text(Seconds time);

/// "worker/1 was killed by signal 9 (Killed) after 3.2 s"
[[nodiscard]] std::string end_text(const EndedProcess& process);

/// The same with its last lines, on lines of their own.
[[nodiscard]] std::string culprit_text(const EndedProcess& process);

/// "3 workers, 2 servers and an evaluator"
[[nodiscard]] std::string group_text(int workers, int servers, int evaluators);

}  // namespace troupe
