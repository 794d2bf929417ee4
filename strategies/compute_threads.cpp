#include "strategies/compute_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "core/machine.h"
#include "core/text.h"

namespace troupe {

int configure_compute_threads(int requested, int workers_here, int replicas) {
  int threads = requested;
  // LibTorch's own choice: OMP_NUM_THREADS, else the physical cores. A thread per logical core wins
  // little and loses much as soon as anybody else wants one, because waiting threads spin.
  if (threads == 0) threads = at::get_num_threads();
  if (requested == 0 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    threads = std::min(threads, std::max(1, inspect_cores().usable / std::max(1, workers_here)));
  }
  if (requested == 0) threads = std::max(1, threads / replicas);
  at::set_num_threads(threads);
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    // OpenBLAS is behind libblas.so.3 or not there at all; ask the loaded libraries.
    if (auto* set =
            reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) {
      set(1);
    }
  }
  return threads;
}

std::string crowding(int found, int counted, int replicas) {
  const int cores = inspect_cores().usable;
  const int threads = at::get_num_threads() * replicas;
  if (found <= counted || found * threads <= cores) return "";
  return text(found, " workers share this machine, and each computes with ", threads, " of its ",
              cores, " cores: give every worker --threads ", std::max(1, cores / found / replicas));
}

}  // namespace troupe
