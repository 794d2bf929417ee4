// TlsIdentity: what a TLS connection is for, as its client says it in the first message: the
// identity of the PSK, "troupe1/<generation>/<purpose>/<client>><server>". That message travels in
// the clear (RFC 8446, 4.2.11), so the identity is encrypted under the secret: whoever listens
// learns no task's name. It need not be authenticated apart, because the key is derived from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "troupe/core/secret.h"
#include "troupe/distributed/net/credentials.h"

namespace troupe {

/// Printable; another one each time. Names of tasks are plain words of 1 to kMaxTaskBytes bytes.
[[nodiscard]] std::string seal_identity(const Secret& secret, const Identity& identity);
/// Nothing where no seal_identity() with this secret can have made it.
[[nodiscard]] std::optional<Identity> open_identity(const Secret& secret, std::string_view sealed);
/// The PSK of a connection.
[[nodiscard]] Key tls_key(const Secret& secret, const Identity& identity);

}  // namespace troupe
