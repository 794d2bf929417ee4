// The preloaded counter of waits (wait_counter.h). Each function counts, takes the time, and calls
// the CUDA runtime's own, which is the next of that name. cuDNN, NCCL and the driver's functions
// (cu*) do not come by here: NCCL links a runtime of its own.
//
// Thread rule: every thread counts in a record of its own, which stays when the thread has ended.
#include "tests/gpu/wait_counter.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace troupe::gpu {
namespace {

using CudaError = int;  // an enum there
constexpr int kDeviceToHost = 2;
constexpr int kByAddress = 4;  // cudaMemcpyDefault

struct ThreadRecord {
  std::atomic<std::uint64_t> calls[kWaits] = {};
  std::atomic<std::uint64_t> nanoseconds[kWaits] = {};
  long thread = 0;  // the kernel's number
  ThreadRecord* next = nullptr;
};

std::atomic<ThreadRecord*> all_records{nullptr};

ThreadRecord& own_record() {
  thread_local ThreadRecord* const mine = [] {
    auto* record = new ThreadRecord;  // never freed: its counts outlive the thread
    record->thread = syscall(SYS_gettid);
    record->next = all_records.load();
    while (!all_records.compare_exchange_weak(record->next, record)) {
    }
    return record;
  }();
  return *mine;
}

void add(const ThreadRecord& record, WaitCounts& counts) {
  for (std::size_t i = 0; i < kWaits; ++i) {
    counts.calls[i] += record.calls[i].load(std::memory_order_relaxed);
    counts.nanoseconds[i] += record.nanoseconds[i].load(std::memory_order_relaxed);
  }
}

/// The function that would have been called without this library.
template <class Function>
Function* next_of(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr,
                 "wait_counter: no library behind this one has %s. Fix: preload it into programs "
                 "that are linked with the CUDA runtime.\n",
                 name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

template <class Function, class... Arguments>
CudaError counted(Wait wait, Function* function, Arguments... arguments) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const CudaError error = function(arguments...);
  const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
  ThreadRecord& record = own_record();
  const auto i = static_cast<std::size_t>(wait);
  record.calls[i].fetch_add(1, std::memory_order_relaxed);
  record.nanoseconds[i].fetch_add(static_cast<std::uint64_t>(taken.count()),
                                  std::memory_order_relaxed);
  return error;
}

/// {"cudaMemcpy": {"calls": 2, "seconds": 0.000001}}, without the functions that were not called.
std::string json_of(const WaitCounts& counts) {
  std::string json = "{";
  for (std::size_t i = 0; i < kWaits; ++i) {
    if (counts.calls[i] == 0) continue;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.9f",
                  1e-9 * static_cast<double>(counts.nanoseconds[i]));
    json += std::string(json.size() > 1 ? ", " : "") + "\"" + kWaitNames[i] +
            "\": {\"calls\": " + std::to_string(counts.calls[i]) + ", \"seconds\": " + seconds +
            "}";
  }
  return json + "}";
}

void append(const char* path, const std::string& line) {
  const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);  // NOLINT
  // One write: lines of several processes do not mix.
  if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::fprintf(stderr, "wait_counter: %s cannot be written. Fix: name a file that can by %s.\n",
                 path, kWaitsFile);
  }
  if (fd >= 0) close(fd);
}

}  // namespace

extern "C" void troupe_waits_of_thread(WaitCounts* counts) {
  *counts = {};
  add(own_record(), *counts);
}

extern "C" void troupe_waits_of_process(WaitCounts* counts) {
  *counts = {};
  for (auto* record = all_records.load(); record != nullptr; record = record->next) {
    add(*record, *counts);
  }
}

namespace {

__attribute__((destructor)) void report() {
  const char* path = std::getenv(kWaitsFile);
  if (path == nullptr) return;
  WaitCounts all;
  troupe_waits_of_process(&all);
  std::string threads;
  for (auto* record = all_records.load(); record != nullptr; record = record->next) {
    WaitCounts counts;
    add(*record, counts);
    threads += std::string(threads.empty() ? "" : ", ") +
               "{\"thread\": " + std::to_string(record->thread) +
               ", \"waits\": " + json_of(counts) + "}";
  }
  append(path, "{\"process\": " + std::to_string(getpid()) + ", \"program\": \"" +
                   program_invocation_short_name + "\", \"waits\": " + json_of(all) +
                   ", \"threads\": [" + threads + "]}\n");
}

}  // namespace
}  // namespace troupe::gpu

// The CUDA runtime's functions. Streams and events are pointers there.
using troupe::gpu::counted;
using troupe::gpu::next_of;
using troupe::gpu::Wait;

extern "C" {

int cudaStreamSynchronize(void* stream) {
  static auto* const next = next_of<int(void*)>("cudaStreamSynchronize");
  return counted(Wait::stream_synchronize, next, stream);
}

int cudaEventSynchronize(void* event) {
  static auto* const next = next_of<int(void*)>("cudaEventSynchronize");
  return counted(Wait::event_synchronize, next, event);
}

int cudaDeviceSynchronize() {
  static auto* const next = next_of<int()>("cudaDeviceSynchronize");
  return counted(Wait::device_synchronize, next);
}

int cudaMemcpy(void* to, const void* from, std::size_t bytes, int direction) {
  static auto* const next = next_of<int(void*, const void*, std::size_t, int)>("cudaMemcpy");
  return counted(Wait::copy, next, to, from, bytes, direction);
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int direction, void* stream) {
  static auto* const next =
      next_of<int(void*, const void*, std::size_t, int, void*)>("cudaMemcpyAsync");
  if (direction != troupe::gpu::kDeviceToHost && direction != troupe::gpu::kByAddress) {
    return next(to, from, bytes, direction, stream);
  }
  const Wait wait =
      direction == troupe::gpu::kDeviceToHost ? Wait::copy_to_host : Wait::copy_unknown;
  return counted(wait, next, to, from, bytes, direction, stream);
}

int cudaEventQuery(void* event) {
  static auto* const next = next_of<int(void*)>("cudaEventQuery");
  return counted(Wait::event_query, next, event);
}

int cudaStreamQuery(void* stream) {
  static auto* const next = next_of<int(void*)>("cudaStreamQuery");
  return counted(Wait::stream_query, next, stream);
}

}  // extern "C"
