// The report: one HTML file that shows a run, or two side by side, without a network and without a
// server. Its script and style are embedded at build time (report/page/).
#pragma once

#include <string>
#include <vector>

#include "troupe/report/page/run_directory.h"

namespace troupe {

struct ReportedRun {
  std::string name;  // as the reader gave it: the directory
  std::vector<RunLine> lines;
};

/// The page of finished or unfinished runs, one or two. The data is embedded as JSON: no byte of it
/// can end the script element that holds it, or becomes markup; the page's own content security
/// policy allows its one script and style, and requests to "self" alone.
[[nodiscard]] std::string report_page(const std::vector<ReportedRun>& runs);

/// The same page, which asks the server that it came from for its lines: an event stream at
/// "events", with the page's own query (its token). Each event's data is one RunLine as
/// {"source":...,"line":...}; the first events of every connection are all lines so far. Events
/// named "progress" hold a Progress as to_line gives it; after one named "end", with any data, the
/// page does not connect again.
[[nodiscard]] std::string live_page();

/// One RunLine as the page reads it.
[[nodiscard]] std::string to_json(const RunLine& line);

}  // namespace troupe
