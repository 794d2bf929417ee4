// DataDigest: by what two processes, or two starts of a run, see that they have the same data: how
// much, in which order, of which classes, and a few examples that the seed chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "troupe/data/dataset.h"

namespace troupe {

/// JSON, at most 32 KiB. `order`: of the training examples; "": it is not looked at. Reads up to 8
/// examples of each split twice: a field that comes out otherwise the second time (drawn at random
/// in get()) is left out, and of a stream a few of its first block's once. Throws: what
/// Dataset::get() throws.
[[nodiscard]] std::string data_digest(const Splits& splits, const std::string& order,
                                      std::uint64_t seed);

/// What two digests have differently: "field 1 of training example 17", "Long 3", "Long 5".
struct DataDifference {
  std::string what;
  std::string mine;
  std::string theirs;
};
/// The first one; unset: there is none. Numbers with a fraction may differ by rounding, since
/// decoders and processors do. Splits that one of the two does not have are not compared.
/// `theirs` may come from a file or a wire: what is no digest differs from nothing.
[[nodiscard]] std::optional<DataDifference> data_difference(const std::string& mine,
                                                            const std::string& theirs);

/// Throws: ConfigError if two splits have classes (Dataset::classes) that differ.
void check_same_classes(const Splits& splits);

}  // namespace troupe
