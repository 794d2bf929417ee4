// Whether a training's files have a place: what can be known before any of them is written. Nothing
// here writes.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/core/options/train_options.h"

namespace troupe {

/// `directory` exists and can be written, or can be made in the nearest folder above that exists.
/// `setting`: what names it, "--model-dir". Throws: EnvironmentError.
void check_writable(const std::string& directory, const std::string& setting);

/// The most checkpoints of options.model_dir that a training from step `first` to `last` will have
/// there at once, one of them being written, besides those that are there now; at least 1. `last`
/// is huge if only a stop ends training. 0: it saves none.
[[nodiscard]] std::int64_t checkpoints_ahead(const TrainOptions& options, std::int64_t first,
                                             std::int64_t last);

/// Bytes that this process may still write where `directory` is or would be; "" stands for the
/// working directory. Throws: EnvironmentError.
[[nodiscard]] std::uint64_t free_bytes(const std::string& directory);

/// Throws: EnvironmentError if `count` checkpoints of `each` bytes do not fit into `free` bytes.
void check_room(const std::string& directory, std::int64_t each, std::int64_t count,
                std::uint64_t free);

/// "12.3 MB"
[[nodiscard]] std::string megabytes(double bytes);

}  // namespace troupe
