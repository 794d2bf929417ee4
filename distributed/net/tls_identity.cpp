#include "troupe/distributed/net/tls_identity.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <vector>

#include "troupe/core/check.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr std::string_view kIdentityPrefix = "troupe1/";
constexpr std::size_t kStartBytes = 16;  // of the cipher's counter
constexpr std::size_t kMaxSealedIdentity = 256;

std::string text_of(const Identity& identity) {
  return text(kIdentityPrefix, identity.generation, "/", static_cast<int>(identity.purpose), "/",
              identity.client, ">", identity.server);
}

bool is_task(std::string_view task) {
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '>'; };
  return !task.empty() && task.size() <= kMaxTaskBytes &&
         std::all_of(task.begin(), task.end(), is_plain);
}

/// Nothing where `written` is not exactly how text_of() writes an identity.
std::optional<Identity> identity_of(std::string_view written) {
  Identity identity;
  int purpose = 0;
  std::istringstream in{std::string(written)};
  in.ignore(kIdentityPrefix.size());
  (in >> identity.generation).ignore() >> purpose;
  std::getline(in.ignore(), identity.client, '>');
  std::getline(in, identity.server);
  identity.purpose = static_cast<Purpose>(purpose);
  const bool is_one = purpose >= 1 && purpose <= static_cast<int>(kLastPurpose) &&
                      is_task(identity.client) && is_task(identity.server) &&
                      text_of(identity) == written;
  return is_one ? std::optional(identity) : std::nullopt;
}

/// AES-256 in counter mode from `start` on, which encrypts and decrypts alike.
std::vector<unsigned char> cipher(const Secret& secret, const unsigned char* start,
                                  const unsigned char* bytes, std::size_t count) {
  const Key key = secret.derive("tls identity");
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context(EVP_CIPHER_CTX_new(),
                                                                           EVP_CIPHER_CTX_free);
  std::vector<unsigned char> out(count);
  int length = 0;
  const auto* const octets = reinterpret_cast<const unsigned char*>(key.data());
  TROUPE_CHECK(context != nullptr);
  TROUPE_CHECK_EQ(EVP_EncryptInit_ex(context.get(), EVP_aes_256_ctr(), nullptr, octets, start), 1);
  TROUPE_CHECK_EQ(
      EVP_EncryptUpdate(context.get(), out.data(), &length, bytes, static_cast<int>(count)), 1);
  return out;
}

}  // namespace

std::string seal_identity(const Secret& secret, const Identity& identity) {
  const std::string written = text_of(identity);
  TROUPE_CHECK(identity_of(written).has_value());
  std::vector<unsigned char> raw(kStartBytes);
  fill_random({reinterpret_cast<std::byte*>(raw.data()), raw.size()});
  const auto hidden = cipher(
      secret, raw.data(), reinterpret_cast<const unsigned char*>(written.data()), written.size());
  raw.insert(raw.end(), hidden.begin(), hidden.end());
  std::array<unsigned char, kMaxSealedIdentity + 1> encoded{};
  const int length = EVP_EncodeBlock(encoded.data(), raw.data(), static_cast<int>(raw.size()));
  return {encoded.begin(), encoded.begin() + length};
}

std::optional<Identity> open_identity(const Secret& secret, std::string_view sealed) {
  if (sealed.empty() || sealed.size() > kMaxSealedIdentity) return std::nullopt;
  std::array<unsigned char, kMaxSealedIdentity> raw{};
  const int decoded =
      EVP_DecodeBlock(raw.data(), reinterpret_cast<const unsigned char*>(sealed.data()),
                      static_cast<int>(sealed.size()));
  const auto padding = static_cast<int>(std::count(sealed.begin(), sealed.end(), '='));
  const int bytes = decoded - padding;
  if (padding > 2 || bytes <= static_cast<int>(kStartBytes)) return std::nullopt;
  const auto plain = cipher(secret, raw.data(), raw.data() + kStartBytes,
                            static_cast<std::size_t>(bytes) - kStartBytes);
  return identity_of({reinterpret_cast<const char*>(plain.data()), plain.size()});
}

Key tls_key(const Secret& secret, const Identity& identity) {
  return secret.derive(text("tls ", text_of(identity)));
}

}  // namespace troupe
