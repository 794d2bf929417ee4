// Files that hold a job's secret: read with suspicion, made for their owner alone.
#pragma once

#include <memory>
#include <string>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/secret.h"

namespace troupe {

/// The secret in the file at `path`, links followed; `named_by` is what named it ("--secret-file").
/// It is all the file's bytes, but a newline at the end of a line of text. Never waits for a
/// writer, as a pipe would make it.
/// Throws: ConfigError, with the command that helps, unless it is a regular file of
/// Secret::kMinBytes to kMaxBytes that belongs to this user or root, and that nobody else may read
/// but a group of this process's (a Kubernetes Secret: root's, 0440 with fsGroup), nor write.
[[nodiscard]] std::shared_ptr<const Secret> read_secret_file(const std::string& path,
                                                             const std::string& named_by);

/// A new secret: 64 hexadecimal digits, which are 256 random bits, and a newline.
[[nodiscard]] std::string new_secret_text();

/// Makes a file (0600) of a new secret, in one step: whoever finds it finds all of it.
/// Returns false if there is something at `path` already, which stays. Throws: EnvironmentError.
[[nodiscard]] bool make_secret_file(const std::string& path);

/// Where the key is by which all processes of this user on this machine know each other:
/// troupe/key below XDG_CONFIG_HOME, or below ~/.config. "": neither variable is set.
[[nodiscard]] std::string user_key_path(const Environment& environment);

/// The secret in that key, which is made if it is missing, with its directories (0700). Processes
/// that start together agree on one. Throws: ConfigError, EnvironmentError.
[[nodiscard]] std::shared_ptr<const Secret> read_user_key(const std::string& path);

}  // namespace troupe
