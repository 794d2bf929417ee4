// RunJournal: what happened to a run, one JSON object per line, in <model_dir>/run.jsonl. Numbers
// by step are in summaries.jsonl; evaluations are in eval*/summaries.jsonl; exports are
// directories. The journal has the rest: what was started, with which settings, what was saved, who
// was lost, how it ended. Written by the chief alone.
//
//   {"event":"start","time":1700000000.5,"step":0,"program":"mnist","mode":"train","strategy":"multi_worker",
//    "tasks":["chief/0","worker/1"],"generation":1,"total_steps":471,"machine":{...},"versions":{...},
//    "settings":[{"name":"batch-size","value":"64","source":"command line"}],
//    "parameters":[{"name":"conv1.weight","shape":[8,1,5,5],"count":200,"trained":true}],
//    "metrics":[{"name":"accuracy","better":"higher"}]}
//   {"event":"save","time":...,"step":100,"checkpoint":"model.ckpt-100","seconds":0.01}
//   {"event":"lost","time":...,"step":220,"task":"worker/2","reason":"connection closed without a
//   goodbye","seconds":0.04}
//   {"event":"joined","time":...,"step":230,"task":"worker/2","seconds":0.03}
//
// "seconds": for how long an elastic group stood still; other groups have none.
//
//   {"event":"end","time":...,"step":471,"reason":"global step 471 has reached
//   max_steps","exit_code":0}
//
// A resumed run appends another start. A start without an end before the next one was killed.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "troupe/report/json_lines.h"
#include "troupe/report/summary_writer.h"

namespace troupe {

class RunJournal {
 public:
  static constexpr const char* kFileName = "run.jsonl";

  /// Writes nothing before the first event. `directory` exists by then.
  explicit RunJournal(std::string directory, SummaryWriter::Now now = &system_time)
      : directory_(std::move(directory)), now_(std::move(now)) {}

  /// Whether a run in `directory` has told that it ended well at this step, and with that all
  /// before it.
  [[nodiscard]] static bool has_end(const std::string& directory, std::int64_t step) {
    return ToldLines(directory + "/" + kFileName)
        .take({{"event", "end"}, {"step", step}, {"exit_code", 0}});
  }
  /// Any thread. Appends {"event":event,"time":now, ...fields} and a newline; durable against the
  /// end of this process when it returns (not against a loss of power). `again`: as Outbox::Tell.
  /// Throws: EnvironmentError if the file cannot be written.
  void write(std::string_view event, const nlohmann::ordered_json& fields, bool again = false) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!lines_) lines_.emplace(directory_ + "/" + kFileName);
    nlohmann::ordered_json line = {{"event", event}, {"time", now_()}};
    if (!fields.empty()) line.update(fields);
    if (!again || !lines_->has_told(line)) lines_->append(line);
  }

 private:
  std::string directory_;
  SummaryWriter::Now now_;
  std::mutex mutex_;
  std::optional<JsonLines> lines_;
};

}  // namespace troupe
