// SHA-256 of bytes (FIPS 180-4), by OpenSSL, which stays behind this header.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/span.h"

namespace troupe {

/// Digest of bytes given in pieces. Not thread safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(Span<const std::byte> bytes);
  void update(std::string_view characters);
  /// 64 hexadecimal digits; ends the digest, call once.
  [[nodiscard]] std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of one string.
[[nodiscard]] std::string sha256_hex(std::string_view characters);

}  // namespace troupe
