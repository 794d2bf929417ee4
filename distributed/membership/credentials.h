// What protects a job's connections, as its cluster description and options say: every process
// knows by itself, and nothing is negotiated.
#pragma once

#include "troupe/core/options/cluster.h"
#include "troupe/core/options/group_options.h"
#include "troupe/distributed/net/credentials.h"

namespace troupe {

/// Whether TCP connections of this job are encrypted: an address is outside loopback, and
/// `insecure` is not given.
[[nodiscard]] bool encrypts(const Cluster& cluster, const GroupOptions& options);

/// This process's; without a secret where it is the only one of its group.
/// Throws: ConfigError where a group of several has no secret, or a task's name is too long.
[[nodiscard]] Credentials credentials_of(const Cluster& cluster, const GroupOptions& options);

/// One warning where bytes leave the machine unencrypted.
void warn_of_open_traffic(const Cluster& cluster, const GroupOptions& options);

}  // namespace troupe
