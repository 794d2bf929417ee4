// Placement: which server holds which rows of which tensor. A function of sizes alone, so that
// every worker and server finds the same. ParameterStore: what one server holds, and how an update
// changes it. ChangeLog: what has changed.
//
// Vocabulary: a *server* is a process that holds parameters and applies updates to them; a *shard*
// is a range of rows (axis 0) of one tensor on one server, known by its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "troupe/core/check.h"
#include "troupe/core/span.h"

namespace troupe {

/// One tensor that servers hold. A scalar is one row.
struct ServedTensor {
  std::string name;
  int optimizer = 0;  // which one owns it, in the order of create_model; -1: none, never changes
  std::int64_t rows = 1;
  std::size_t row_bytes = 4;
  bool is_divisible = true;  // its rows may be on several servers
};

/// Rows [first_row, first_row + rows) of a tensor. Its number is its place in what place() returns.
struct Shard {
  int tensor = 0;
  int server = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

/// What workers and servers must know of the parameters, beside the cluster.
struct ServedModel {
  std::vector<ServedTensor> tensors;
  std::vector<Shard> shards;

  [[nodiscard]] const Shard& shard(int number) const {
    const auto index = static_cast<std::size_t>(number);
    TROUPE_CHECK(index < shards.size());
    return shards[index];
  }
  [[nodiscard]] const ServedTensor& tensor_of(const Shard& shard) const {
    return tensors[static_cast<std::size_t>(shard.tensor)];
  }
  [[nodiscard]] std::size_t bytes_of(const Shard& shard) const {
    return static_cast<std::size_t>(shard.rows) * tensor_of(shard).row_bytes;
  }
};

/// `rows` over `parts`, larger parts first, none empty: 13 over 5 is {3, 3, 3, 2, 2}.
[[nodiscard]] std::vector<std::int64_t> split_rows(std::int64_t rows, int parts);

/// Splits divisible tensors of at least two times `min_shard_bytes` into as many parts as there are
/// servers, at most, none smaller than that, and gives every shard to the server with the fewest
/// bytes so far, largest tensors first. Shards come in the order of their tensors and rows.
[[nodiscard]] std::vector<Shard> place(const std::vector<ServedTensor>& tensors, int servers,
                                       std::size_t min_shard_bytes);

/// Values, or a gradient, of some rows of one shard.
struct RowBlock {
  int shard = 0;
  bool all_rows = true;
  Span<const std::int64_t> rows;  // counted from the shard's first; empty with all_rows
  Span<const std::byte> values;   // row after row
};

/// What one worker pushes for one optimiser in one step.
struct Push {
  int optimizer = 0;
  std::vector<double> learning_rates;  // the worker's, by parameter group
  /// This worker's part of what the sum of all workers' gradients is to be divided by, its examples
  /// or the weights of its losses; and what these gradients are divided by already.
  double weight = 0;
  double divisor = 0;
  /// Not sent, the server counts it: updates by which these gradients are late, which make the step
  /// smaller. 0: it is the step of one device.
  std::int64_t missed = 0;
  std::vector<RowBlock> gradients;  // of shards that have one
};

/// The server decides when something changes; the store does the arithmetic, behind this interface
/// because wire/ knows no tensors.
/// Thread rule: the server's thread only.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  /// Takes over values and optimiser state, as save() or the chief wrote them: `state` is hostile.
  /// Throws: ConfigError when they do not fit.
  virtual void load(Span<const std::byte> state) = 0;
  [[nodiscard]] virtual std::vector<std::byte> save() = 0;

  /// Whether the push's optimiser exists and has as many parameter groups as the push has learning
  /// rates. What apply() is given has been asked for.
  [[nodiscard]] virtual bool accepts(const Push& push) const = 0;
  /// One step of one optimiser with the sum of these gradients, added in the order given, times
  /// `scale` where that is not 1; a push that has missed updates comes alone. All pushes are for
  /// the same optimiser. A shard that none of them names has no gradient. Shapes of the blocks have
  /// been checked against the placement.
  virtual void apply(const std::vector<const Push*>& pushes, double scale) = 0;

  /// The present values of `rows` of a shard (all where empty), row after row.
  /// Shapes: `out` has rows x row_bytes.
  virtual void read(int shard, Span<const std::int64_t> rows, Span<std::byte> out) const = 0;
};

/// Which rows of a server's shards have changed since a version, so that a worker is sent those and
/// no others. Every update makes a new version. Of a shard the log keeps the rows of its latest
/// sparse updates, at most as many as the shard has: who knows only an older version is sent the
/// whole shard.
/// Thread rule: the server's thread only.
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
    std::int64_t rows = 0;
    std::int64_t whole = 1;  // who has an older version needs the whole shard
    std::deque<Rows> recent;
    std::int64_t recent_rows = 0;
  };

  std::int64_t version_ = 1;
  std::map<int, Log> logs_;  // by shard, of this server's
};

}  // namespace troupe
