#include "troupe/data/one_compute_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace troupe::detail {

void use_one_compute_thread_here() {
  // ATen sets a thread's count at its first use; that has to lie behind us, or it undoes our
  // setting.
  if (at::get_num_threads() == 1) return;
  // In OpenMP the count is a property of the calling thread. The function is looked up in the
  // process, because the runtime to ask is the one that LibTorch brought along, and that may be a
  // renamed copy which the linker knows nothing of. Without OpenMP, ATen has one pool for the whole
  // process, so there is no second one to keep from starting.
  using SetNumThreads = void (*)(int);
  if (void* const symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<SetNumThreads>(symbol)(1);
  }
  // MKL, inside pip's LibTorch, goes by a count of its own, and starts a team for exp() of a large
  // tensor.
  if (void* const symbol = dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local")) {
    (void)reinterpret_cast<int (*)(int)>(symbol)(1);
  }
}

}  // namespace troupe::detail
