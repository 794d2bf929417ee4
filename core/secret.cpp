#include "troupe/core/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {

Secret::Secret(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {
  if (bytes_.size() >= kMinBytes && bytes_.size() <= kMaxBytes) return;
  throw ConfigError(
      text("the secret has ", bytes_.size(), " bytes, not ", kMinBytes, " to ", kMaxBytes, "."),
      "make one with `troupe secret`.");
}

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

// Extract with a salt of zeros, then the first block of expand: all that 32 bytes need.
Key Secret::derive(std::string_view info) const {
  const Key extracted = hmac_sha256(Key{}, bytes());
  std::vector<std::byte> block(info.size() + 1);
  for (std::size_t i = 0; i < info.size(); ++i) block[i] = static_cast<std::byte>(info[i]);
  block.back() = std::byte{1};
  return hmac_sha256(extracted, Span<const std::byte>(block));
}

void fill_random(Span<std::byte> bytes) {
  auto* const at = reinterpret_cast<unsigned char*>(bytes.data());
  if (RAND_bytes(at, static_cast<int>(bytes.size())) == 1) return;
  throw EnvironmentError("the system gives no random bytes.", "look at /dev/urandom.");
}

Key hmac_sha256(const Key& key, Span<const std::byte> message) {
  Key code{};
  unsigned int length = 0;
  const unsigned char* const done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(code.data()), &length);
  TROUPE_CHECK(done != nullptr && length == code.size());
  return code;
}

bool same_bytes(Span<const std::byte> one, Span<const std::byte> other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace troupe
