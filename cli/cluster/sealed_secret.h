// How a launcher hands the secret to the processes it starts: an unnamed file in memory that nobody
// can change any more, inherited as a descriptor. Neither arguments nor variables hold a byte of
// it.
#pragma once

#include <memory>

#include "troupe/core/secret.h"
#include "troupe/core/unique_fd.h"

namespace troupe {

/// The variable that names the descriptor.
inline constexpr const char* kSecretDescriptorVariable = "TROUPE_SECRET_FD";

/// A sealed file of the secret's bytes, closed in children unless the caller says otherwise.
/// Throws: EnvironmentError.
[[nodiscard]] UniqueFd seal(const Secret& secret);

/// Whether the descriptor is open and is what seal() makes.
[[nodiscard]] bool is_sealed_secret(int descriptor);

/// The secret in it. It stays open, and its position, which all who inherited it share, stays.
/// Throws: ConfigError if it is not what seal() makes.
[[nodiscard]] std::shared_ptr<const Secret> read_sealed(int descriptor);

}  // namespace troupe
