// SecretSource: which secret a process takes part with. The first of these that is given: the flag
// --secret-file, the launcher's descriptor, TROUPE_SECRET_FILE, --config; on loopback the user's
// key. docs/security.md.
#pragma once

#include <memory>
#include <string>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/secret.h"

namespace troupe {

/// The variable of --secret-file.
inline constexpr const char* kSecretFileVariable = "TROUPE_SECRET_FILE";

struct SecretSource {
  enum class Kind {
    none,        // the process belongs to no group of several
    file,        // that somebody named
    descriptor,  // from troupe run
    user_key,
    missing,  // one is needed
  };
  Kind kind = Kind::none;
  std::string path;     // of the file or the key
  std::string origin;   // what named the file ("--secret-file")
  int descriptor = -1;  // that the launcher handed down, wanted or not; -1: none
};

/// From what was given for --secret-file and for the hidden --secret-fd. Looks at nothing but its
/// arguments. `trains`: false for a process that only uses a model.
[[nodiscard]] SecretSource choose_secret(const detail::GivenTexts& given, const Cluster& cluster,
                                         bool trains, const Environment& environment);

/// The secret; null for Kind::none. The launcher's descriptor is closed, also where another source
/// is used, and its variable is removed, so that nothing that this process starts inherits either.
/// Call it once, before any other thread runs. Makes the user's key if that is the source.
/// Throws: ConfigError, also for Kind::missing; EnvironmentError.
[[nodiscard]] std::shared_ptr<const Secret> take_secret(const SecretSource& source,
                                                        const Cluster& cluster);

}  // namespace troupe
