// SummaryWriter: the summaries of one directory, as TensorBoard's event files and, line by line, as
// JSON beside them: histograms in histograms.jsonl, so that summaries.jsonl stays short, all else
// in summaries.jsonl; images in event files alone. One writer per directory and process. Not thread
// safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/report/event_file.h"
#include "troupe/report/json_lines.h"

namespace troupe {

class SummaryWriter {
 public:
  static constexpr const char* kLinesName = "summaries.jsonl";
  static constexpr const char* kHistogramsName = "histograms.jsonl";
  using Now = std::function<WallTime()>;

  /// Makes `directory`, its missing parents and the files with the first write. A run whose
  /// first summary is of `first_step` or later tells readers to discard what former files say of
  /// that step and later ones; unset: nothing is discarded, as evaluations need it.
  explicit SummaryWriter(std::string directory,
                         std::optional<std::int64_t> first_step = std::nullopt,
                         Now now = &system_time);

  /// Whether summaries are there, of an earlier run.
  [[nodiscard]] bool has_lines() const;
  /// Makes the files now, and tells readers what `first_step` would: for a run whose leader may
  /// change. `again`, here and below: as Outbox::Tell; what is there is not written twice.
  void begin_session(std::int64_t first_step, bool again);

  /// Durable against the end of this process when it returns (not against a loss of power).
  /// {"step": 100, "time": 1700000000.5, "loss": 0.25, "global_step/sec": 150.0}
  /// Throws: EnvironmentError if the directory cannot be made, or the files cannot be written.
  void write(std::int64_t step, const std::vector<Scalar>& scalars, bool again = false);
  /// A text summary; in the JSON line a string.
  void write_text(std::int64_t step, const std::string& tag, const std::string& value,
                  bool again = false);
  /// {"step":1,"time":...,"tag":"parameters/conv1.weight","edges":[-1,0,1],"counts":[8,2],...}
  /// Nothing if there is no finite value.
  void write_histogram(std::int64_t step, const std::string& tag, const Histogram& histogram,
                       bool again = false);
  /// `png`: the bytes of a PNG file, at most 16 MiB. Throws: ConfigError for other bytes.
  void write_image(std::int64_t step, const std::string& tag, const std::string& png);

 private:
  /// What a lost process has told in event files: step and tags.
  using ToldEvents = std::multiset<std::pair<std::int64_t, std::vector<std::string>>>;

  void open_lines(WallTime now);
  void open_events();
  void write_event(const std::string& message, bool again);

  std::string directory_;
  std::optional<std::int64_t> first_step_;
  Now now_;
  std::unique_ptr<EventFile> events_;
  std::optional<JsonLines> lines_;
  std::optional<JsonLines> histograms_;
  std::optional<ToldEvents> told_;  // before the first event that is told again
};

}  // namespace troupe
