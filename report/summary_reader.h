// Reads the scalars of event files back: for early stopping and for the best export. Files are not
// trusted until checked; one that ends in the middle of a record, as a killed writer leaves it, is
// read up to there with a warning.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace troupe {

/// Values by tag, by step; of several for one step and tag the last written.
using ScalarHistory = std::map<std::int64_t, std::map<std::string, double>>;

/// All scalars of the event files of `directory`, oldest file first; a session start discards its
/// step and later ones. Empty if the directory is missing or holds no event file.
/// Throws: EnvironmentError if a file cannot be read.
[[nodiscard]] ScalarHistory read_scalars(const std::string& directory);

}  // namespace troupe
