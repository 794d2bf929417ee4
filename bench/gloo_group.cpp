// TROUPE_BENCH_GLOO (bench/CMakeLists.txt) is 1 where LibTorch has Gloo and its headers are there.
#include "bench/gloo_group.h"

#include <utility>

#if TROUPE_BENCH_GLOO

#include <ATen/ops/from_blob.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace troupe::bench {

class GlooGroup::Impl {
 public:
  Impl(int rank, int world_size, const std::string& store_file, std::chrono::milliseconds limit)
      : group_(c10::make_intrusive<c10d::FileStore>(store_file, world_size), rank, world_size,
               make_options(limit)) {}

  void all_reduce(Span<float> values) {
    std::vector<at::Tensor> tensors = {
        at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)};
    group_.allreduce(tensors)->wait();
  }

 private:
  // From LibTorch 2.0 on the group derives from Backend instead of ProcessGroup and the handle is
  // c10d::Work instead of ProcessGroup::Work; neither is named here, so one spelling serves all.
  using Options = c10d::ProcessGroupGloo::Options;

  static c10::intrusive_ptr<Options> make_options(std::chrono::milliseconds limit) {
    auto options = Options::create(limit);  // otherwise as torch.distributed makes it: two threads
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    return options;
  }

  c10d::ProcessGroupGloo group_;
};

std::unique_ptr<GlooGroup> GlooGroup::make(int rank, int world_size, const std::string& store_file,
                                           std::chrono::milliseconds limit) {
  return std::unique_ptr<GlooGroup>(
      new GlooGroup(std::make_unique<Impl>(rank, world_size, store_file, limit)));
}

void GlooGroup::all_reduce(Span<float> values) { impl_->all_reduce(values); }

bool has_gloo() { return true; }
std::string gloo_status() { return std::string("through c10d of LibTorch ") + TORCH_VERSION; }

#else

namespace troupe::bench {

class GlooGroup::Impl {};

std::unique_ptr<GlooGroup> GlooGroup::make(int, int, const std::string&,
                                           std::chrono::milliseconds) {
  return nullptr;
}

void GlooGroup::all_reduce(Span<float>) {}

bool has_gloo() { return false; }
std::string gloo_status() { return "not in this LibTorch"; }

#endif

GlooGroup::GlooGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GlooGroup::~GlooGroup() = default;

}  // namespace troupe::bench
