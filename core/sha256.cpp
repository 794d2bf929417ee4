#include "core/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "core/check.h"

namespace troupe {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  TROUPE_CHECK(state_->context != nullptr);
  TROUPE_CHECK_EQ(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr), 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(Span<const std::byte> bytes) {
  TROUPE_CHECK_EQ(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()), 1);
}

void Sha256::update(std::string_view characters) {
  TROUPE_CHECK_EQ(EVP_DigestUpdate(state_->context, characters.data(), characters.size()), 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  TROUPE_CHECK_EQ(EVP_DigestFinal_ex(state_->context, digest.data(), &length), 1);
  TROUPE_CHECK_EQ(length, digest.size());
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(64);
  for (const unsigned char byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string sha256_hex(std::string_view characters) {
  Sha256 digest;
  digest.update(characters);
  return digest.hex();
}

}  // namespace troupe
