#include "troupe/strategies/parameter_server/wire/placement.h"

#include <algorithm>
#include <numeric>

namespace troupe {

std::vector<std::int64_t> split_rows(std::int64_t rows, int parts) {
  TROUPE_CHECK(rows >= 0 && parts >= 1);
  const std::int64_t count = std::min<std::int64_t>(parts, rows);
  std::vector<std::int64_t> sizes;
  for (std::int64_t part = 0; part < count; ++part) {
    sizes.push_back(rows / count + (part < rows % count ? 1 : 0));
  }
  return sizes;
}

std::vector<Shard> place(const std::vector<ServedTensor>& tensors, int servers,
                         std::size_t min_shard_bytes) {
  TROUPE_CHECK(servers >= 1);
  const std::size_t smallest = std::max<std::size_t>(min_shard_bytes, 1);
  std::vector<Shard> shards;
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ServedTensor& tensor = tensors[i];
    const auto whole = static_cast<std::size_t>(tensor.rows) * tensor.row_bytes;
    const int most = tensor.is_divisible ? servers : 1;
    auto parts = static_cast<int>(
        std::clamp<std::size_t>(whole / smallest, 1, static_cast<std::size_t>(most)));
    // The last part is the smallest: rows do not divide evenly.
    const auto last = [&] { return split_rows(tensor.rows, parts).back(); };
    while (parts > 1 && static_cast<std::size_t>(last()) * tensor.row_bytes < smallest) --parts;
    std::int64_t first = 0;
    for (const std::int64_t rows : split_rows(tensor.rows, parts)) {
      shards.push_back({static_cast<int>(i), 0, first, rows});
      bytes.push_back(static_cast<std::size_t>(rows) * tensor.row_bytes);
      first += rows;
    }
  }
  // Largest tensors first; the shards of one tensor stay together, and so go to different servers
  // unless one is far behind.
  std::vector<std::size_t> order(shards.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size_of = [&](std::size_t shard) {
    const ServedTensor& tensor = tensors[static_cast<std::size_t>(shards[shard].tensor)];
    return static_cast<std::size_t>(tensor.rows) * tensor.row_bytes;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  std::vector<std::size_t> load(static_cast<std::size_t>(servers), 0);
  for (const std::size_t shard : order) {
    const auto least = std::min_element(load.begin(), load.end());
    shards[shard].server = static_cast<int>(least - load.begin());
    *least += bytes[shard];
  }
  return shards;
}

ChangeLog::ChangeLog(const ServedModel& model, int server) {
  for (std::size_t shard = 0; shard < model.shards.size(); ++shard) {
    if (model.shards[shard].server != server) continue;
    logs_[static_cast<int>(shard)].rows = model.shards[shard].rows;
  }
}

void ChangeLog::touch_all(int shard) {
  Log& log = logs_.at(shard);
  log.whole = version_;
  log.recent.clear();
  log.recent_rows = 0;
}

void ChangeLog::touch_rows(int shard, Span<const std::int64_t> rows) {
  if (rows.empty()) return;
  Log& log = logs_.at(shard);
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
  for (const auto& [shard, log] : logs_) {
    Change change;
    change.shard = shard;
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
