// Calls the fake CUDA runtime a known number of times from two threads, and prints what the counter
// says of it, if one is preloaded: "thread CALLS..." and "process CALLS...", or "no counter".
// Exit code 1: a call did not reach the runtime with its arguments.
#include <dlfcn.h>

#include <iostream>
#include <thread>

#include "tests/gpu/fake_cudart.h"
#include "tests/gpu/wait_counter.h"

namespace troupe::gpu {
namespace {

/// One call of everything; of cudaMemcpyAsync one for each direction.
bool call_each() {
  bool right = cudaStreamSynchronize(nullptr) == 1 && cudaEventSynchronize(nullptr) == 2 &&
               cudaDeviceSynchronize() == 3 && cudaMemcpy(nullptr, nullptr, 0, 1) == 11 &&
               cudaEventQuery(nullptr) == 4 && cudaStreamQuery(nullptr) == 5;
  for (int direction = 0; direction < 5; ++direction) {
    right = right && cudaMemcpyAsync(nullptr, nullptr, 0, direction, nullptr) == 20 + direction;
  }
  return right;
}

bool print(const char* name, const char* function) {
  auto* take = reinterpret_cast<TakeWaitCounts*>(dlsym(RTLD_DEFAULT, function));
  if (take == nullptr) return false;
  WaitCounts counts;
  take(&counts);
  std::cout << name;
  for (const auto calls : counts.calls) std::cout << " " << calls;
  std::cout << "\n";
  return true;
}

}  // namespace
}  // namespace troupe::gpu

int main() {
  using namespace troupe::gpu;
  bool right = call_each();
  bool theirs = false;
  std::thread([&theirs] { theirs = call_each() && cudaStreamSynchronize(nullptr) == 1; }).join();
  right = right && theirs;
  if (!print("thread", kOfThread) || !print("process", kOfProcess)) std::cout << "no counter\n";
  return right ? 0 : 1;
}
