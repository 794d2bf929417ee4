// The secret of a launched job, and `troupe secret`, which makes one for several machines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/secret.h"

namespace troupe {

/// The one in `file`, else in the file that TROUPE_SECRET_FILE of `own` names, else 32 random
/// bytes. The descriptor of an outer launcher's is closed in what this process starts.
/// Throws: ConfigError, EnvironmentError.
[[nodiscard]] std::shared_ptr<const Secret> launch_secret(const std::string& file,
                                                          const Environment& own);

/// `troupe secret [FILE]`; `arguments`: what follows the word "secret". A file is made for its
/// owner alone, and so is one that the shell made for stdout and that everybody could read. Returns
/// the exit code.  Throws: ConfigError if FILE exists or stdout is a terminal, EnvironmentError.
[[nodiscard]] int make_secret(const std::vector<std::string>& arguments);

/// What `troupe help secret` prints.
[[nodiscard]] std::string secret_help();

}  // namespace troupe
