// What libtroupe_wait_counter.so counts: calls of the CUDA runtime in which the host waits for the
// device, or asks whether it would have to. A program that runs with the library preloaded asks for
// the counts by dlsym, so it runs without it, too. Nothing here includes a header of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::gpu {

/// By the function called. to_host: asynchronous by name, but the host waits where its memory is
/// not pinned. unknown: a copy whose direction the runtime finds out by the addresses.
enum class Wait {
  stream_synchronize,
  event_synchronize,
  device_synchronize,
  copy,
  copy_to_host,
  copy_unknown,
  event_query,
  stream_query
};
inline constexpr std::size_t kWaits = 8;
inline constexpr const char* kWaitNames[kWaits] = {
    "cudaStreamSynchronize",   "cudaEventSynchronize",
    "cudaDeviceSynchronize",   "cudaMemcpy",
    "cudaMemcpyAsync to host", "cudaMemcpyAsync unknown",
    "cudaEventQuery",          "cudaStreamQuery"};

struct WaitCounts {
  std::uint64_t calls[kWaits] = {};
  std::uint64_t nanoseconds[kWaits] = {};  // spent in them
};

/// The library's two functions, by these names: the counts so far of the calling thread, and of
/// all threads that the process has had.
using TakeWaitCounts = void(WaitCounts*);
inline constexpr const char* kOfThread = "troupe_waits_of_thread";
inline constexpr const char* kOfProcess = "troupe_waits_of_process";
/// The variable that names the file to which a process appends its counts, as one line of JSON,
/// when it exits. Unset: it does not.
inline constexpr const char* kWaitsFile = "TROUPE_WAITS_FILE";

}  // namespace troupe::gpu
