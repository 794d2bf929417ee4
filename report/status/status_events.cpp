#include "troupe/report/status/status_events.h"

#include "troupe/core/error.h"
#include "troupe/report/page/report_page.h"

namespace troupe::detail {

std::string StatusEvents::next() {
  std::string events;
  try {
    if (!directory_) directory_.emplace(model_dir_);
  } catch (const ConfigError&) {  // before the first line is written
  }
  if (directory_) {
    for (const RunLine& line : directory_->read_on()) events += "data: " + to_json(line) + "\n\n";
  }
  const auto [progress, count] = progress_.get();
  if (count != seen_) events += "event: progress\ndata: " + to_line(progress) + "\n\n";
  seen_ = count;
  return events;
}

}  // namespace troupe::detail
