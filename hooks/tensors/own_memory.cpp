#include "troupe/hooks/tensors/own_memory.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <set>
#include <unordered_map>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

/// What a live replica was made with. The weak reference keeps the place from being given to other
/// memory; a tensor may have been given other memory since.
struct Taken {
  c10::weak_intrusive_ptr<c10::StorageImpl> memory;
  std::string name;
};

std::mutex g_in_use;
/// By memory; guarded by g_in_use.
std::unordered_map<const void*, Taken>& taken() {
  static std::unordered_map<const void*, Taken> all;
  return all;
}

/// Null: it has none.
const void* memory_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return nullptr;
  return tensor.storage().unsafeGetStorageImpl();
}

}  // namespace

OwnMemory::OwnMemory(const std::vector<NamedTensor>& tensors) {
  const std::lock_guard<std::mutex> lock(g_in_use);
  std::set<const void*> own;  // tied weights and views share it within a replica
  for (const auto& [name, tensor] : tensors) {
    const void* const memory = memory_of(tensor);
    if (memory == nullptr || !own.insert(memory).second) continue;
    const auto other = taken().find(memory);
    if (other == taken().end() || other->second.memory.expired()) continue;
    throw ConfigError(
        text("create_model returned \"", name, "\" with the memory of \"", other->second.name,
             "\" of another replica: what one trains would change under the other."),
        "make every module in create_model, anew at each call: it is called for each replica, and "
        "for evaluations. Hooks hold configuration only.");
  }
  for (const auto& [name, tensor] : tensors) {
    const void* const memory = memory_of(tensor);
    if (memory == nullptr) continue;
    const Taken made{tensor.storage().getWeakStorageImpl(), name};
    if (taken().emplace(memory, made).second) mine_.push_back(memory);
  }
}

OwnMemory::~OwnMemory() {
  const std::lock_guard<std::mutex> lock(g_in_use);
  for (const void* const memory : mine_) taken().erase(memory);
}

}  // namespace troupe::detail
