// examples/regression/generated_births.h -- births that never happened: what the example trains on
// when it is given no files. Rules of thumb with noise; they describe nobody and prove nothing.
//
// Bit-identical on every machine: integers only, up to the last division by 1000.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/regression/births.h"

namespace births {

inline constexpr std::int64_t kEvalRows = 4000;

/// `count` births; fewer give a prefix of more. Another seed gives others.
[[nodiscard]] std::vector<Birth> generate(std::int64_t count, std::uint64_t seed);

/// The folder with train.csv and eval.csv: `data_dir` or, if that is empty, one for generated
/// births below the temporary directory. A folder that is empty or not there gets both files,
/// generated, in one step: workers that start together may all call this. Files that are there stay
/// as they are. Throws: troupe::DataError where the folder holds something else;
/// troupe::EnvironmentError.
[[nodiscard]] std::filesystem::path make_folder(const std::string& data_dir,
                                                std::int64_t train_rows);

}  // namespace births
