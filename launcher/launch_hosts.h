// Hosts: starts `troupe run` as an agent on several machines by ssh, each a node of one group
// (launch_nodes.h), and is their console: passes signals on, brings their lines back, and ends with
// them. docs/cluster.md is the manual.
#pragma once

#include "launcher/launch.h"

namespace troupe {

/// As launch(), for options.remote.hosts. The exit code is node 0's; 3 if a host could not be
/// reached or prepared, 138 if the way to it broke.
/// Throws: ConfigError, EnvironmentError.
[[nodiscard]] int launch_on_hosts(const LaunchOptions& options);

/// The arguments of the agent on host number `node`.
[[nodiscard]] std::vector<std::string> agent_arguments(const LaunchOptions& options, int node);

/// The variables of `own` that agents are given: settings of programs (TROUPE_*), nothing that
/// describes a cluster or a secret, choices of kernels, which decide the bits (OPENBLAS_CORETYPE,
/// ATEN_CPU_CAPABILITY, ...), and those named by --export.
/// Throws: ConfigError for one of these that is not set.
[[nodiscard]] Environment exported(const Environment& own, const std::vector<std::string>& names);

}  // namespace troupe
