// ChangeLog: which rows of a server's shards have changed since a version, so that a worker is sent
// those and no others.
//
// Every update makes a new version. Of a shard the log keeps the rows of its latest sparse updates,
// at most as many as the shard has: who knows only an older version is sent the whole shard.
// Thread rule: the server's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/span.h"
#include "servers/wire/placement.h"

namespace troupe {

class ChangeLog {
 public:
  /// A worker that has no values yet.
  static constexpr std::int64_t kNothing = 0;

  /// All of this server's shards are new with version 1.
  ChangeLog(const ServedModel& model, int server);

  [[nodiscard]] std::int64_t version() const { return version_; }
  /// The changes that follow belong to a new version.
  void begin_update() { ++version_; }
  void touch_all(int shard);
  /// The rows may come in any order, and more than once.
  void touch_rows(int shard, Span<const std::int64_t> rows);

  struct Change {
    int shard = 0;
    bool all_rows = true;
    std::vector<std::int64_t> rows;  // ascending, each once; empty with all_rows
  };
  [[nodiscard]] std::vector<Change> since(std::int64_t version) const;

 private:
  struct Rows {
    std::int64_t version;
    std::vector<std::int64_t> rows;
  };
  struct Log {
    int shard;
    std::int64_t rows;
    std::int64_t whole = 1;  // who has an older version needs the whole shard
    std::deque<Rows> recent;
    std::int64_t recent_rows = 0;
  };
  [[nodiscard]] Log& log_of(int shard);

  std::int64_t version_ = 1;
  std::vector<Log> logs_;       // of this server's shards
  std::vector<int> log_index_;  // by shard; -1: another server's
};

}  // namespace troupe
