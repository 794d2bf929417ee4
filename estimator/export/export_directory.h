// How an export gets its directory, and how old ones go.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/file_system.h"
#include "estimator/export/exporter.h"
#include "estimator/roles/sleeper.h"

namespace troupe {

/// Seconds since 1970, by the system's clock.
using WallSeconds = std::function<std::int64_t()>;
[[nodiscard]] std::int64_t wall_seconds();

/// Writes an export below `base` (made where missing) and returns its path. A name that is taken is
/// followed by the next second's, waited for, ten times at most. What `write_model` leaves behind
/// when it throws is removed. Complete and durable when it returns.
/// Throws: EnvironmentError; what write_model throws.
std::string publish_export(const std::string& base, const ModelWriter& write_model,
                           const WallSeconds& now, Sleeper& sleeper);

/// Removes all but the `keep` numerically largest directories whose names are ten digits. Touches
/// nothing else. One that cannot be removed is a warning.
void collect_old_exports(const std::string& base, int keep);

namespace detail {

/// Makes the content of a file that exists durable; the path is relative to the files' root.
using FileSync = std::function<void(const std::string& path)>;

/// publish_export and collect_old_exports at the root of `files`.
std::string publish_at(FileSystem& files, const FileSync& sync_file, const ModelWriter& write_model,
                       const WallSeconds& now, Sleeper& sleeper);
void collect_at(FileSystem& files, int keep);

}  // namespace detail
}  // namespace troupe
