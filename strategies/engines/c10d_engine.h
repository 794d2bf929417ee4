// C10dEngine: everything that Gloo and NCCL share behind LibTorch's c10d. One spelling serves all
// versions: from 2.0 on back ends derive from Backend instead of ProcessGroup, and handles are
// c10d::Work instead of ProcessGroup::Work, so neither base is named here.
//
// Included by gloo.cpp and nccl.cpp, after the header of their back end, and by
// c10d_engine_test.cpp. nccl.cpp cannot be compiled where LibTorch has no CUDA; what is not in it
// is tested through gloo.cpp, with a back end that fails as NCCL does, and with one that works as
// NCCL does on a device without hardware (late_device_test.cpp).
#pragma once

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <chrono>
#include <exception>
#include <functional>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/user_code.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/engines/engine_wait.h"
#include "troupe/strategies/engines/group_store.h"

namespace troupe::detail {

/// What a back end reads and writes.
enum class Reach { host, device };

/// Its own limit of a collective: ours comes first, and says more.
inline std::chrono::milliseconds backend_timeout(const WorkerGroup& group) {
  return 2 * group.options().collective_timeout;
}

template <class Backend>
class C10dEngine final : public Engine {
 public:
  using Connect = std::function<c10::intrusive_ptr<Backend>(c10::intrusive_ptr<GroupStore>)>;
  /// `connect` makes the back end with the store.  Collective: yes.
  C10dEngine(WorkerGroup& group, const char* name, Reach reach, const Connect& connect)
      : group_(group), name_(name), reach_(reach), store_(c10::make_intrusive<GroupStore>(group)) {
    try {
      backend_ = connect(store_);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      library_failed(group_, text("connecting by ", name_), words_of(error));
    }
  }

  ~C10dEngine() override {
    store_->leave_group();
    // A back end waits in its destructor for what it has begun. Where that cannot end, because a
    // peer is gone, its threads end with the process, which is about to.
    if (stuck_) (void)backend_.release();
  }

  void all_reduce(const at::Tensor& flat, const Summand& summand) override {
    if (group_.world_size() == 1) return;
    const at::Tensor values = reach_ == Reach::host ? flat.to(torch::kCPU) : flat;
    const EngineWait wait(group_, name_, summand.what, values.nbytes());
    try {
      std::vector<at::Tensor> tensors = {values};
      stuck_ = true;
      const auto work = backend_->allreduce(tensors);
      wait.until([&] { return work->isCompleted(); }, Pause::growing);
      stuck_ = false;
      // Complete is also what has failed, and then NCCL's wait() says nothing.
      if (const std::exception_ptr failure = work->exception()) std::rethrow_exception(failure);
      work->wait();  // a device's stream waits here, the host does not
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      wait.failed(words_of(error));
    }
    if (!values.is_same(flat)) flat.copy_(values);
  }

 private:
  WorkerGroup& group_;
  const char* const name_;
  const Reach reach_;
  c10::intrusive_ptr<GroupStore> store_;
  c10::intrusive_ptr<Backend> backend_;
  bool stuck_ = false;  // a sum was begun and has not come to an end
};

}  // namespace troupe::detail
