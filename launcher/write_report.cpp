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
#include "troupe/core/output.h"
#include "troupe/core/text.h"
#include "troupe/report/page/report_page.h"
#include "troupe/report/page/run_directory.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// Lines that a page takes. A browser is slow with more, and a run's few hundred thousand steps at
/// the default interval are thousands.
constexpr std::size_t kMostLines = 500'000;

struct Request {
  std::vector<std::string> directories;
  std::string output;
};

Request parse_request(std::vector<std::string> arguments) {
  Request request;
  std::replace(arguments.begin(), arguments.end(), std::string("-o"), std::string("--output"));
  const detail::FlagTable table({detail::path("output", &request.output, "", "FILE")});
  assign(read_command_line(arguments, table, &request.directories).given, table);
  if (request.directories.empty() || request.directories.size() > 2) {
    throw ConfigError(
        text("`troupe report` takes one or two directories, not ", request.directories.size(), "."),
        "write `troupe report DIR [DIR2] [-o FILE]`.");
  }
  if (request.output.empty())
    request.output = (fs::path(request.directories.front()) / "report.html").string();
  return request;
}

/// "runs/a/" is shown as "runs/a".
std::string shown_name(const std::string& directory) {
  const auto end = directory.find_last_not_of('/');
  return end == std::string::npos ? directory : directory.substr(0, end + 1);
}

ReportedRun read_run(const std::string& directory) {
  RunDirectory run(directory);
  ReportedRun read{shown_name(directory), {}};
  for (auto lines = run.read_on(); !lines.empty(); lines = run.read_on()) {
    std::move(lines.begin(), lines.end(), std::back_inserter(read.lines));
    if (read.lines.size() <= kMostLines) continue;
    throw ConfigError(
        text("'", directory, "' has more than ", kMostLines, " lines, too many for a page."),
        "train with a larger --save-summary-steps, or report on the run's TensorBoard files.");
  }
  return read;
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
  std::vector<ReportedRun> runs;
  for (const std::string& directory : request.directories) runs.push_back(read_run(directory));
  replace_page(request.output, report_page(runs));
  (void)detail::print_text(request.output + "\n");
  return 0;
}

std::string report_help() {
  return R"(Usage: troupe report DIR [DIR2] [-o FILE]

Makes one HTML file of what a run has written into its --model-dir: curves of
losses, metrics, learning rate, gradient norm and speed; a lane per worker with
saves, evaluations and lost workers; checkpoints and exports; every setting and
where it came from; the model's parameters; the machine. With DIR2 two runs are
drawn in the same charts, and settings that differ are marked.

The file needs no network and no server. Runs may still be under way. Prints
the path of the file.

  -o, --output FILE   the file to write (DIR/report.html)

Examples:
  troupe report run1
  troupe report run1 run2 -o compare.html

docs/report.md has the rest.
)";
}

}  // namespace troupe
