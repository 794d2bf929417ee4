// What fake_cudart.cpp defines.
#pragma once

#include <chrono>
#include <cstddef>

namespace troupe::gpu {
inline constexpr std::chrono::microseconds kFakeWait{200};  // of every call, at least
}  // namespace troupe::gpu

extern "C" {
int cudaStreamSynchronize(void* stream);
int cudaEventSynchronize(void* event);
int cudaDeviceSynchronize();
int cudaMemcpy(void* to, const void* from, std::size_t bytes, int direction);
int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int direction, void* stream);
int cudaEventQuery(void* event);
int cudaStreamQuery(void* stream);
}
