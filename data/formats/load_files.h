// Files of examples as data sets and tensors: what data/formats/csv.h and data/formats/npy.h read.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/data/dataset.h"
#include "troupe/data/formats/csv.h"

namespace troupe {

/// The rows of a CSV file as a data set, all of it in memory:
///   load_csv("fruit.csv", {{csv_real("height"), csv_real("width")},
///                          {csv_category("kind", {"apple", "pear"})}})
/// Shapes: a batch has one tensor per entry of `fields`, [B, C] for its C columns, [B] if it has
/// one: float32 for reals, int64 for integers and categories.
/// Throws: as read_csv.
[[nodiscard]] std::shared_ptr<const Dataset> load_csv(
    const std::filesystem::path& path, const std::vector<std::vector<CsvColumn>>& fields,
    char separator = ',');

/// The array of a .npy file, of the same shape and type.  Throws: as read_npy.
///   TensorDataset({load_npy("images.npy"), load_npy("labels.npy")})
[[nodiscard]] at::Tensor load_npy(const std::filesystem::path& path);
/// The arrays of a .npz file by name.  Throws: as read_npz.
[[nodiscard]] std::map<std::string, at::Tensor> load_npz(const std::filesystem::path& path);

}  // namespace troupe
