#include "troupe/core/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <boost/algorithm/hex.hpp>
#include <iterator>

#include "troupe/core/check.h"

namespace troupe {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  TROUPE_CHECK(context_ != nullptr);
  TROUPE_CHECK_EQ(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), 1);
}

void Sha256::update(Span<const std::byte> bytes) {
  TROUPE_CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
}

void Sha256::update(std::string_view characters) {
  TROUPE_CHECK_EQ(EVP_DigestUpdate(context_.get(), characters.data(), characters.size()), 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  TROUPE_CHECK_EQ(EVP_DigestFinal_ex(context_.get(), digest.data(), &length), 1);
  TROUPE_CHECK_EQ(length, digest.size());
  return hex_of(as_bytes(Span<const unsigned char>(digest.data(), digest.size())));
}

std::string hex_of(Span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(bytes.data());
  std::string out;
  boost::algorithm::hex_lower(begin, begin + bytes.size(), std::back_inserter(out));
  return out;
}

std::string sha256_hex(std::string_view characters) {
  Sha256 digest;
  digest.update(characters);
  return digest.hex();
}

}  // namespace troupe
