// RunDirectory: the lines of a model directory, for the report and its live page: run.jsonl,
// summaries.jsonl, eval*/summaries.jsonl, and the directories below export/. Reads on where it
// stopped: a report reads until nothing is left, a live page again and again. The files may be
// written meanwhile, be damaged, or be anybody's: a line that is not a JSON object, is nested
// deeper than kMostLevels or longer than kMostLineBytes is left out; links are not followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// One line of the page's data.
struct RunLine {
  std::string source;           // "run", "train", "eval", "eval_<name>", "export/<exporter>"
  nlohmann::ordered_json line;  // as written; of an export: {"time":1700000000}
};

class RunDirectory {
 public:
  static constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;
  static constexpr int kMostLevels = 16;
  /// Of one read_on(), so that nobody's directory decides about this process's memory.
  static constexpr std::uint64_t kMostBytesAtOnce = std::uint64_t{32} << 20;

  /// Throws: ConfigError if `path` is no directory, or nothing in it tells of a run.
  explicit RunDirectory(std::string path);

  /// What was appended since the last call, whole lines only, each file's in order; empty: nothing.
  /// At most kMostBytesAtOnce are read: the next call continues.
  /// Throws: EnvironmentError if a file that is there cannot be read.
  [[nodiscard]] std::vector<RunLine> read_on();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  /// Where the reading of one file stands.
  struct Place {
    std::uint64_t offset = 0;  // up to the end of the last whole line, or of a too long one so far
    bool in_long_line = false;
  };
  struct Source {
    std::string name;
    std::string file;
  };

  [[nodiscard]] std::vector<Source> sources() const;
  void read_file(const Source& source, std::uint64_t most, std::vector<RunLine>& lines);
  void read_exports(std::vector<RunLine>& lines);

  std::string path_;
  std::map<std::string, Place> places_;  // by file
  std::set<std::string> exports_;        // seen, as "<exporter>/<time>"
};

}  // namespace troupe
