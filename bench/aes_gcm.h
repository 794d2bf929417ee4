// AesGcm: what a core can seal and open with AES-128-GCM, in records as TLS has them and with no
// socket around it: the limit that encrypted collectives are held to.
#pragma once

#include <cstddef>
#include <memory>

namespace troupe::bench {

class AesGcm {
 public:
  /// Throws: EnvironmentError.
  AesGcm();
  ~AesGcm();
  AesGcm(const AesGcm&) = delete;
  AesGcm& operator=(const AesGcm&) = delete;

  /// Seals as many bytes and opens as many, as a rank of two does in an all-reduce of them.
  void seal_and_open(std::size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::bench
