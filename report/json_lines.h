// JsonLines: a file to which JSON objects are appended, one per line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "troupe/core/unique_fd.h"

namespace troupe {

/// Appends `bytes` to the open file at `path`; durable against the end of this process when it
/// returns (not against a loss of power). Throws: EnvironmentError.
void append_bytes(const UniqueFd& file, const std::string& path, const std::string& bytes);

class JsonLines {
 public:
  /// Opens the file at `path`, made if missing; a partial line that a killed process left is ended.
  /// Whoever reads the directory may also have put a link or a pipe there: neither is written to.
  /// Throws: EnvironmentError if it cannot be written.
  explicit JsonLines(const std::string& path);

  /// Whether the file held anything when it was opened.
  [[nodiscard]] bool had_content() const { return had_content_; }
  /// As append_bytes. Numbers that are not finite come out as null: JSON has none; bytes that are
  /// not UTF-8 as U+FFFD.
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  UniqueFd file_;
  bool had_content_ = false;
};

}  // namespace troupe
