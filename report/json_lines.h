// JsonLines: a file to which JSON objects are appended, one per line.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "troupe/core/unique_fd.h"

namespace troupe {

/// Appends `bytes` to the open file at `path`; durable against the end of this process when it
/// returns (not against a loss of power). Throws: EnvironmentError.
void append_bytes(const UniqueFd& file, const std::string& path, const std::string& bytes);

/// What a process that was lost has told in a file, by its last lines: which of another one's
/// records are there. Two are the same record if they have the same step, epoch, event, task,
/// checkpoint, tag and exit code, and, but for events, the same names: other values may be the
/// other process' own, as speeds are.
class ToldLines {
 public:
  /// Reads the last 4 MiB of the file; lines that are no JSON objects do not count.
  explicit ToldLines(const std::string& path);
  /// Whether `line` is there. Each of the file's lines counts once.
  [[nodiscard]] bool take(const nlohmann::ordered_json& line);

 private:
  std::multiset<std::string> keys_;
};

/// Cuts a last line that was not written to its end, as a killed process leaves it; `file` is open
/// for reading and writing. Whatever is no regular file is left alone.  Throws: EnvironmentError.
void drop_partial_line(const UniqueFd& file, const std::string& path);

class JsonLines {
 public:
  /// Opens the file at `path`, made if missing; a partial line that a killed process left is cut.
  /// Whoever reads the directory may also have put a link or a pipe there: neither is written to.
  /// Throws: EnvironmentError if it cannot be written.
  explicit JsonLines(const std::string& path);

  /// Whether the file held anything when it was opened.
  [[nodiscard]] bool had_content() const { return had_content_; }
  /// Whether a process that was lost has written this record: see ToldLines. To be asked before
  /// anything is appended.
  [[nodiscard]] bool has_told(const nlohmann::ordered_json& line);
  /// As append_bytes. Numbers that are not finite come out as null: JSON has none; bytes that are
  /// not UTF-8 as U+FFFD.
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  UniqueFd file_;
  bool had_content_ = false;
  std::optional<ToldLines> told_;  // once it was asked for
};

}  // namespace troupe
