// Failure: why a group stops, in the form in which it travels between workers.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"

namespace troupe {

/// Which error class a failure becomes. The numbers are part of the protocol (docs/wire.md).
enum class FailureKind {
  peer_lost = 1,
  peer_failed = 2,
  timeout = 3,
  desync = 4,
  config = 5,
  rendezvous = 6,
  internal = 7,
};

struct Failure {
  FailureKind kind = FailureKind::internal;
  int culprit = 0;    // rank; a server is number_of()
  std::string cause;  // sentence, ends with '.'
  std::string fix;    // sentence, ends with '.'
  int exit_code = 1;  // 1 to 255; of peer_failed, the other kinds have their own
};

/// The advice to processes of different builds.
inline constexpr const char* kSameBuild = "run the same build of Troupe in every process.";

/// The number by which a failure names this process: a worker's rank; world_size + its index for a
/// server.
[[nodiscard]] int number_of(const Cluster& cluster);

/// Throws the failure as the worker or server of `cluster` sees it: one that the others have
/// given up reads that it was expelled. `where` is a sentence about what this worker was doing,
/// or empty.
[[noreturn]] void raise(const Failure& failure, const Cluster& cluster, const std::string& where);

/// "worker/1 at 127.0.0.1:2223"
[[nodiscard]] std::string describe_member(const Member& member);

/// "a, b and 7 more"
[[nodiscard]] std::string join_names(const std::vector<std::string>& names);

/// The failure that `peer` runs another build; `versions` is describe_versions().
[[nodiscard]] Failure other_version(const Cluster& cluster, const std::string& peer,
                                    const std::string& versions);

/// The failure "`what` in 300 s (limit --start-timeout): `why`.", with the advice to look whether
/// everybody reaches `whom`.
[[nodiscard]] Failure start_timeout(int culprit, const std::string& what,
                                    std::chrono::milliseconds limit, const std::string& why,
                                    const std::string& whom);

/// The failure that bytes which `from` has sent to `to` (number_of) came as others at `address`,
/// which is `to`'s; `where`: " in all_reduce #4", or "".
[[nodiscard]] Failure bytes_damaged(const Cluster& cluster, int from, int to,
                                    const std::string& address, const std::string& where = "");

/// The failure "`number` is gone" (number_of), with the advice that goes with it.
[[nodiscard]] Failure peer_lost(const Cluster& cluster, int number, const std::string& how);

}  // namespace troupe
