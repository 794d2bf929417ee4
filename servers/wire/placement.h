// Placement: which server holds which rows of which tensor. A function of sizes alone, so that
// every worker and server finds the same.
//
// Vocabulary: a *server* is a process that holds parameters and applies updates to them; a *shard*
// is a range of rows (axis 0) of one tensor on one server, known by its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// One tensor that servers hold. A scalar is one row.
struct ServedTensor {
  std::string name;
  int optimizer = 0;  // which one owns it, in the order of create_model; -1: none, never changes
  std::int64_t rows = 1;
  std::size_t row_bytes = 4;
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

  [[nodiscard]] const ServedTensor& tensor_of(const Shard& shard) const {
    return tensors[static_cast<std::size_t>(shard.tensor)];
  }
  [[nodiscard]] std::size_t bytes_of(const Shard& shard) const {
    return static_cast<std::size_t>(shard.rows) * tensor_of(shard).row_bytes;
  }
};

/// `rows` over `parts`, larger parts first, none empty: 13 over 5 is {3, 3, 3, 2, 2}.
[[nodiscard]] std::vector<std::int64_t> split_rows(std::int64_t rows, int parts);

/// Splits tensors of at least two times `min_shard_bytes` into as many parts as there are servers,
/// at most, none smaller than that, and gives every shard to the server with the fewest bytes so
/// far, largest tensors first. Shards come in the order of their tensors and rows.
[[nodiscard]] std::vector<Shard> place(const std::vector<ServedTensor>& tensors, int servers,
                                       std::size_t min_shard_bytes);

}  // namespace troupe
