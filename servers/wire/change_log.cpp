#include "servers/wire/change_log.h"

#include <algorithm>

#include "core/check.h"

namespace troupe {

ChangeLog::ChangeLog(const ServedModel& model, int server) : log_index_(model.shards.size(), -1) {
  for (std::size_t shard = 0; shard < model.shards.size(); ++shard) {
    if (model.shards[shard].server != server) continue;
    log_index_[shard] = static_cast<int>(logs_.size());
    Log log;
    log.shard = static_cast<int>(shard);
    log.rows = model.shards[shard].rows;
    logs_.push_back(std::move(log));
  }
}

ChangeLog::Log& ChangeLog::log_of(int shard) {
  const int index = log_index_.at(static_cast<std::size_t>(shard));
  TROUPE_CHECK(index >= 0);
  return logs_[static_cast<std::size_t>(index)];
}

void ChangeLog::touch_all(int shard) {
  Log& log = log_of(shard);
  log.whole = version_;
  log.recent.clear();
  log.recent_rows = 0;
}

void ChangeLog::touch_rows(int shard, Span<const std::int64_t> rows) {
  if (rows.empty()) return;
  Log& log = log_of(shard);
  log.recent.push_back({version_, {rows.begin(), rows.end()}});
  log.recent_rows += static_cast<std::int64_t>(rows.size());
  while (log.recent_rows > log.rows) {
    log.whole = log.recent.front().version;
    log.recent_rows -= static_cast<std::int64_t>(log.recent.front().rows.size());
    log.recent.pop_front();
  }
}

std::vector<ChangeLog::Change> ChangeLog::since(std::int64_t version) const {
  std::vector<Change> changes;
  for (const Log& log : logs_) {
    Change change;
    change.shard = log.shard;
    change.all_rows = version < log.whole;
    if (!change.all_rows) {
      std::vector<std::int64_t>& rows = change.rows;
      for (auto entry = log.recent.rbegin(); entry != log.recent.rend(); ++entry) {
        if (entry->version <= version) break;
        rows.insert(rows.end(), entry->rows.begin(), entry->rows.end());
      }
      if (rows.empty()) continue;
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace troupe
