// Control: a measuring process's line to the script that says whose turn it is (bench/ensemble.py).
// While it waits for its turn it sleeps, so that processes which measure other things have the
// cores.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace troupe::bench {

class Control {
 public:
  /// Connects to the socket that the variable BENCH_CONTROL names.
  /// Throws: ConfigError without one; EnvironmentError.
  Control();
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// The words of the next request; {"end"} also when the script is gone.
  /// Blocks: at most ten minutes.  Throws: EnvironmentError after them.
  [[nodiscard]] std::vector<std::string> next();
  /// The first answer is the greeting and says {"rank": r}.  Throws: EnvironmentError.
  void answer(const nlohmann::ordered_json& line);

 private:
  int fd_ = -1;
  std::string unread_;
};

/// What a process says when it leaves: {"peak_rss_bytes": n}.
[[nodiscard]] nlohmann::ordered_json farewell();

}  // namespace troupe::bench
