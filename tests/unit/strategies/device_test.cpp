#include "troupe/strategies/device.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/support/torch_prelude.h"

namespace device_test {

namespace {

/// Unset while it lives.
class Without {
 public:
  explicit Without(const char* name) : name_(name) {
    if (const char* value = std::getenv(name)) value_ = value;
    unsetenv(name);
  }
  ~Without() {
    if (value_) setenv(name_, value_->c_str(), 1);
  }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  const char* name_;
  std::optional<std::string> value_;
};

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("device: a worker computes with its share of the cores, whatever LibTorch counts") {
    const int before = at::get_num_threads();
    const Without openmp("OMP_NUM_THREADS");
    const Without mkl("MKL_NUM_THREADS");
    // More than the physical cores, as the share is where two logical cores share one.
    const int share = 2 * before + 1;
    CHECK(troupe::configure_compute_threads(0, share, 1) == share);
    CHECK(at::get_num_threads() == share);
    CHECK(troupe::configure_compute_threads(0, share, 2) == share / 2);
    CHECK(troupe::configure_compute_threads(0, 1, 2) == 1);
    CHECK(troupe::configure_compute_threads(3, share, 2) == 3);
    at::set_num_threads(before);
  }

  TEST_CASE("devices: a GPU has one name in all processes of a machine that see it") {
    using troupe::detail::gpu_identity;
    CHECK(gpu_identity("cuda", nullptr) == gpu_identity("cuda:0", nullptr));
    CHECK(gpu_identity("cuda:0", nullptr) != gpu_identity("cuda:1", nullptr));
    CHECK(gpu_identity("cuda", "3") == gpu_identity("cuda:1", "2,3"));
    CHECK(gpu_identity("cuda", "3") == gpu_identity("cuda:3", nullptr));
    CHECK(gpu_identity("cuda", "GPU-a1,GPU-b2") != gpu_identity("cuda:1", "GPU-a1,GPU-b2"));
    CHECK(gpu_identity("cuda", nullptr).size() > 36);  // the machine's boot is in it
  }
}

}  // namespace device_test
