// SharedGenerator: LibTorch's one generator of a device, where several replicas of a process have
// it: what each draws depends on who comes first.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "troupe/hooks/phase.h"

namespace troupe::detail {

class SharedGenerator {
 public:
  /// Of replicas on these devices: those that are on the first one's.
  explicit SharedGenerator(const std::vector<c10::Device>& devices);

  /// Calls `work`, which is the first replica's in a step; in the first step of a phase it sees
  /// which operations take a generator. The others do the same.
  void watch(Phase phase, const std::function<void()>& work) {
    draws_.clear();
    if (sharing_ < 2 || !seen_.insert(phase).second) return work();
    look(phase, work);
  }
  /// "train_step draws random numbers (aten::bernoulli_) on the CPU, where 2 replicas share
  /// LibTorch's one generator, in any order": of the last watch(). "": nothing was drawn, or it is
  /// not shared.
  [[nodiscard]] const std::string& draws() const { return draws_; }

 private:
  void look(Phase phase, const std::function<void()>& work);

  std::ptrdiff_t sharing_;
  std::string device_;
  std::set<Phase> seen_;
  std::string draws_;
};

}  // namespace troupe::detail
