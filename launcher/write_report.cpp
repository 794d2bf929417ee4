#include "troupe/launcher/write_report.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "troupe/cli/flags_making.h"
#include "troupe/cli/flags_reading.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/report/page/report_page.h"
#include "troupe/report/page/run_directory.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// Lines that a page takes. A browser is slow with more, and a run's few hundred thousand steps at
/// the default interval are thousands.
constexpr std::size_t kMostLines = 500'000;
/// So many runs have a column each; more have a row each.
constexpr std::size_t kSideBySide = 2;

/// "runs/a/" is shown as "runs/a".
std::string shown_name(const std::string& directory) {
  const auto end = directory.find_last_not_of('/');
  return end == std::string::npos ? directory : directory.substr(0, end + 1);
}

struct Request {
  std::vector<std::string> directories;
  std::string output;
};

Request parse_request(std::vector<std::string> arguments) {
  Request request;
  std::replace(arguments.begin(), arguments.end(), std::string("-o"), std::string("--output"));
  const detail::FlagTable table({detail::path("output", &request.output, "", "FILE")});
  assign(read_command_line(arguments, table, &request.directories).given, table);
  if (request.directories.empty()) {
    throw ConfigError("`troupe report` takes a directory, or several.",
                      "write `troupe report DIR... [-o FILE]`.");
  }
  if (request.output.empty()) {
    const fs::path first = shown_name(request.directories.front());
    const fs::path folder = request.directories.size() > kSideBySide ? first.parent_path() : first;
    request.output = (folder / "report.html").string();
  }
  return request;
}

/// `most`: lines that there is room for.
ReportedRun read_run(const std::string& directory, std::size_t most) {
  RunDirectory run(directory);
  ReportedRun read{shown_name(directory), {}};
  for (auto lines = run.read_on(); !lines.empty(); lines = run.read_on()) {
    std::move(lines.begin(), lines.end(), std::back_inserter(read.lines));
    if (read.lines.size() <= most) continue;
    throw ConfigError(
        text("with '", directory, "' there are more than ", kMostLines,
             " lines, too many for a page."),
        "train with a larger --save-summary-steps, or report on the run's TensorBoard files.");
  }
  return read;
}

/// Of many directories, as `runs/*` names them, those that tell of no run are left out.
std::vector<ReportedRun> read_runs(const std::vector<std::string>& directories) {
  std::vector<ReportedRun> runs;
  std::size_t lines = 0;
  for (const std::string& directory : directories) {
    try {
      (void)RunDirectory(directory);
    } catch (const ConfigError& no_run) {
      if (directories.size() <= kSideBySide) throw;
      log_warning("left out: ", no_run.cause());
      continue;
    }
    runs.push_back(read_run(directory, kMostLines - lines));
    lines += runs.back().lines.size();
  }
  if (!runs.empty()) return runs;
  throw ConfigError("none of these directories tells of a run.",
                    "name the --model-dir of runs that have trained.");
}

/// A reader of the old page never sees half of the new one.
void replace_page(const std::string& path, const std::string& page) {
  const std::string partial = text(path, ".", ::getpid(), ".partial");
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << page << std::flush;
  std::error_code error;
  if (file) fs::rename(partial, path, error);
  if (file && !error) return;
  std::error_code ignored;
  fs::remove(partial, ignored);
  throw EnvironmentError(text("the report '", path, "' cannot be written."),
                         "name a file with -o in a directory that this user may write to.");
}

}  // namespace

int write_report(const std::vector<std::string>& arguments) {
  const Request request = parse_request(arguments);
  replace_page(request.output, report_page(read_runs(request.directories)));
  (void)detail::print_text(request.output + "\n");
  return 0;
}

std::string report_help() {
  return R"(Usage: troupe report DIR... [-o FILE]

Makes one HTML file of what a run has written into its --model-dir: curves of
losses, metrics, learning rate, gradient norm and speed; a lane per worker with
saves, evaluations and lost workers; checkpoints and exports; every setting and
where it came from; the model's parameters; the machine. Two runs are drawn in
the same charts, and settings that differ are marked. More have a row each in a
table, with those settings and their results, to be sorted, and up to six of
them, as chosen there, in the same charts: troupe report runs/*

The file needs no network and no server. Runs may still be under way. Prints
the path of the file.

  -o, --output FILE   the file to write (report.html in the first DIR; of more
                      than two in the folder that holds it)

Examples:
  troupe report run1
  troupe report run1 run2 -o compare.html
  troupe report runs/*

docs/report.md has the rest.
)";
}

}  // namespace troupe
