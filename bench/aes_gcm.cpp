#include "bench/aes_gcm.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "troupe/core/error.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kRecord = 16'384;

void require(bool done) {
  if (!done) throw EnvironmentError("OpenSSL has no AES-128-GCM.", "look at the system's OpenSSL.");
}

}  // namespace

struct AesGcm::State {
  EVP_CIPHER_CTX* sealing = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* opening = EVP_CIPHER_CTX_new();
  std::array<unsigned char, 16> key{};
  std::array<unsigned char, 12> nonce{};
  std::array<unsigned char, 16> tag{};
  std::vector<unsigned char> plain = std::vector<unsigned char>(kRecord);
  std::vector<unsigned char> sealed = std::vector<unsigned char>(kRecord);
};

AesGcm::AesGcm() : state_(std::make_unique<State>()) {
  State& s = *state_;
  require(EVP_EncryptInit_ex(s.sealing, EVP_aes_128_gcm(), nullptr, s.key.data(), nullptr) == 1);
  require(EVP_DecryptInit_ex(s.opening, EVP_aes_128_gcm(), nullptr, s.key.data(), nullptr) == 1);
}

AesGcm::~AesGcm() {
  EVP_CIPHER_CTX_free(state_->sealing);
  EVP_CIPHER_CTX_free(state_->opening);
}

void AesGcm::seal_and_open(std::size_t bytes) {
  State& s = *state_;
  int length = 0;
  int last = 0;
  for (std::size_t done = 0; done < bytes; done += kRecord) {
    const int record = static_cast<int>(std::min(kRecord, bytes - done));
    require(EVP_EncryptInit_ex(s.sealing, nullptr, nullptr, nullptr, s.nonce.data()) == 1 &&
            EVP_EncryptUpdate(s.sealing, s.sealed.data(), &length, s.plain.data(), record) == 1 &&
            EVP_EncryptFinal_ex(s.sealing, s.sealed.data() + length, &last) == 1 &&
            EVP_CIPHER_CTX_ctrl(s.sealing, EVP_CTRL_GCM_GET_TAG, 16, s.tag.data()) == 1 &&
            EVP_DecryptInit_ex(s.opening, nullptr, nullptr, nullptr, s.nonce.data()) == 1 &&
            EVP_DecryptUpdate(s.opening, s.plain.data(), &length, s.sealed.data(), record) == 1 &&
            EVP_CIPHER_CTX_ctrl(s.opening, EVP_CTRL_GCM_SET_TAG, 16, s.tag.data()) == 1 &&
            EVP_DecryptFinal_ex(s.opening, s.plain.data() + length, &last) == 1);
  }
}

}  // namespace troupe::bench
