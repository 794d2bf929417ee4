// SHA-256 of bytes (FIPS 180-4), by OpenSSL, which stays behind this header.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "troupe/core/span.h"

struct evp_md_ctx_st;  // OpenSSL's

namespace troupe {

/// Digest of bytes given in pieces. Not thread safe.
class Sha256 {
 public:
  Sha256();

  void update(Span<const std::byte> bytes);
  void update(std::string_view characters);
  /// 64 hexadecimal digits; ends the digest, call once.
  [[nodiscard]] std::string hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// Two hexadecimal digits for each byte.
[[nodiscard]] std::string hex_of(Span<const std::byte> bytes);

/// The digest of one string.
[[nodiscard]] std::string sha256_hex(std::string_view characters);

}  // namespace troupe
