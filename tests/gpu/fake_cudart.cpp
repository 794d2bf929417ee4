// A CUDA runtime without CUDA: the functions that the counter of waits counts, each of which takes
// a known time and returns what tells it apart. fake_cudart.map gives them the runtime's version.
#include "tests/gpu/fake_cudart.h"

#include "tests/support/eventually.h"

namespace {

int take(int result) {
  troupe::testing::take_time(troupe::gpu::kFakeWait);
  return result;
}

}  // namespace

extern "C" {

int cudaStreamSynchronize(void* /*stream*/) { return take(1); }
int cudaEventSynchronize(void* /*event*/) { return take(2); }
int cudaDeviceSynchronize() { return take(3); }
int cudaMemcpy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/, int direction) {
  return take(10 + direction);
}
int cudaMemcpyAsync(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/, int direction,
                    void* /*stream*/) {
  return take(20 + direction);
}
int cudaEventQuery(void* /*event*/) { return take(4); }
int cudaStreamQuery(void* /*stream*/) { return take(5); }

}  // extern "C"
