// OwnMemory: the memory of a replica's tensors, which no other replica of the process may have, be
// it of the training, of an evaluation or of an export.
// Thread rule: any thread.
#pragma once

#include <vector>

#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe::detail {

class OwnMemory {
 public:
  /// Takes the tensors' memory for as long as this lives.
  /// Throws: ConfigError naming the first tensor whose memory another one has.
  explicit OwnMemory(const std::vector<NamedTensor>& tensors);
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

 private:
  std::vector<const void*> mine_;
};

}  // namespace troupe::detail
