// How an export gets its directory, and how old ones go.
#pragma once

#include <string>

#include "core/error.h"
#include "core/file_system.h"
#include "estimator/export/exporter.h"

namespace troupe {

/// Writes an export at the root of `files` (made where missing) and returns its path. A name that
/// is taken is followed by the next second's, waited for, ten times at most. What `write_model`
/// leaves behind when it throws is removed. Complete and durable when it returns. Throws:
/// EnvironmentError; what write_model throws.
std::string publish_export(FileSystem& files, const ModelWriter& write_model,
                           const WallSeconds& now = &wall_seconds, const Sleep& sleep = &sleep_for);

/// At the root of `files`: removes all but the `keep` numerically largest directories whose names
/// are ten digits. Touches nothing else. One that cannot be removed is a warning.
void collect_old_exports(FileSystem& files, int keep);

namespace detail {

/// Calls `act`; what the file system refuses it, which is no checkpoint here, is an
/// EnvironmentError.
template <class Act>
auto on_files(const Act& act) {
  try {
    return act();
  } catch (const CheckpointError& error) {
    throw EnvironmentError(error.cause(), error.fix());
  }
}

}  // namespace detail
}  // namespace troupe
