#include "troupe/report/run_journal.h"

#include <utility>

namespace troupe {

RunJournal::RunJournal(std::string directory, SummaryWriter::Now now)
    : directory_(std::move(directory)), now_(std::move(now)) {}

void RunJournal::write(std::string_view event, const nlohmann::ordered_json& fields) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!lines_) lines_.emplace(directory_ + "/" + kFileName);
  nlohmann::ordered_json line = {{"event", event}, {"time", now_()}};
  if (!fields.empty()) line.update(fields);
  lines_->append(line);
}

}  // namespace troupe
