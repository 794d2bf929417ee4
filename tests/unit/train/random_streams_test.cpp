// Random streams in a checkpoint, the CPU's and those of other devices. Devices that this machine
// lacks have generators that only count.
#include "troupe/train/checkpoint/random_streams.h"

#include <c10/core/GeneratorImpl.h>

#include <map>

#include "tests/support/captured_log.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"

namespace {

using troupe::NamedTensor;
using troupe::detail::random_streams;
using troupe::detail::RandomStream;
using troupe::detail::restore_states;
using troupe::detail::states_of;

/// Its state is how often it was drawn from.
struct CountingGenerator final : c10::GeneratorImpl {
  explicit CountingGenerator(c10::Device device)
      : GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}
  void set_current_seed(std::uint64_t seed) override { drawn = static_cast<std::uint8_t>(seed); }
  [[nodiscard]] std::uint64_t current_seed() const override { return drawn; }
  std::uint64_t seed() override { return drawn; }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == 1 && state.dtype() == caffe2::TypeMeta::Make<std::uint8_t>());
    drawn = *static_cast<const std::uint8_t*>(state.data());
  }
  [[nodiscard]] c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return torch::tensor({drawn}, torch::kByte).getIntrusivePtr();
  }
  [[nodiscard]] GeneratorImpl* clone_impl() const override { return nullptr; }
  // Virtual from 2.2 on, so without a word that would need it.
  void set_offset(std::uint64_t /*offset*/) {}
  [[nodiscard]] std::uint64_t get_offset() const { return 0; }

  std::uint8_t drawn = 0;
};

/// A process's devices, each with its default generator.
class Machine {
 public:
  at::Generator generator(c10::Device device) {
    auto& known = generators_[device.str()];
    if (!known.defined()) {
      known = device.is_cpu() ? at::detail::createCPUGenerator(3)
                              : at::make_generator<CountingGenerator>(device);
    }
    return known;
  }
  std::vector<RandomStream> streams(const std::vector<c10::Device>& replicas) {
    return random_streams(replicas, [this](c10::Device device) { return generator(device); });
  }

 private:
  std::map<std::string, at::Generator> generators_;
};

const c10::Device kCpu(c10::DeviceType::CPU);
c10::Device gpu(int index) { return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)}; }

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("random streams: the CPU's and every other device's are saved and restored") {
    Machine machine;
    const auto streams = machine.streams({gpu(2), gpu(3)});
    machine.generator(gpu(2)).set_current_seed(20);
    machine.generator(gpu(3)).set_current_seed(30);
    const at::Tensor drawn = torch::rand({4}, machine.generator(kCpu));
    const std::vector<NamedTensor> saved = states_of(streams);
    REQUIRE(saved.size() == 3);
    CHECK(saved[0].first == "random");
    CHECK(saved[1].first == "device_random");
    CHECK(saved[2].first == "replica-1/device_random");
    const at::Tensor next = torch::rand({4}, machine.generator(kCpu));

    Machine later;  // the same replicas, on other devices
    restore_states(later.streams({gpu(0), gpu(1)}), saved);
    CHECK(later.generator(gpu(0)).current_seed() == 20);
    CHECK(later.generator(gpu(1)).current_seed() == 30);
    CHECK(torch::equal(torch::rand({4}, later.generator(kCpu)), next));
    CHECK_FALSE(torch::equal(drawn, next));
  }

  TEST_CASE("random streams: replicas on the CPU add nothing to its stream") {
    Machine machine;
    const auto saved = states_of(machine.streams({kCpu, kCpu}));
    REQUIRE(saved.size() == 1);
    CHECK(saved[0].first == "random");
  }

  TEST_CASE("random streams: a checkpoint without a device's stream is restored with a warning") {
    Machine machine;
    const auto saved = states_of(machine.streams({kCpu}));
    Machine later;
    later.generator(gpu(0)).set_current_seed(7);
    const troupe::testing::CapturedLog log;
    restore_states(later.streams({gpu(0)}), saved);
    CHECK(later.generator(gpu(0)).current_seed() == 7);
    CHECK(log.has("no random state for cuda:0"));
  }

  TEST_CASE("random streams: what no generator accepts is refused by name") {
    Machine machine;
    auto saved = states_of(machine.streams({gpu(0)}));
    const auto refused = [&](const std::string& name) {
      CHECK_THROWS_WITH_AS(restore_states(machine.streams({gpu(0)}), saved),
                           doctest::Contains(("\"" + name + "\"").c_str()),
                           troupe::CheckpointError);
    };
    saved[1].second = torch::zeros({2}, torch::kLong);
    refused("device_random");
    saved[0].second = torch::zeros({3}, torch::kLong);
    refused("random");
    saved[0].second = torch::zeros({5056}, torch::kByte);  // the right form, no state
    refused("random");
    saved.erase(saved.begin());
    refused("random");
  }
}
