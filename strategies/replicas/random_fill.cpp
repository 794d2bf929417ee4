#include "troupe/strategies/replicas/random_fill.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>
#include <set>

#include "troupe/data/split_mix.h"
#include "troupe/hooks/tensors/random_guard.h"

namespace troupe::detail {
namespace {

void fill(at::Generator generator, SplitMix& numbers) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  at::mt19937_data_pod state{};
  state.seed_ = numbers.next();
  state.seeded_ = true;
  state.left_ = 1;  // the next number is the first of a new block, as after a seed
  state.next_ = 0;
  for (std::uint32_t& word : state.state_) word = static_cast<std::uint32_t>(numbers.next() >> 32);
  at::mt19937 engine;
  engine.set_data(state);
  auto* const cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_engine(engine);
  cpu->set_next_float_normal_sample({});
  cpu->set_next_double_normal_sample({});
}

}  // namespace

void fill_generators(c10::Device device, std::initializer_list<std::uint64_t> key) {
  std::uint64_t mixed = 0;
  for (const std::uint64_t part : key) mixed = SplitMix(mixed + part).next();
  SplitMix numbers(mixed);
  fill(at::detail::getDefaultCPUGenerator(), numbers);
  if (device.is_cpu()) return;
  // A counter-based generator: its key is all the state there is, and its counter starts at 0.
  seed_random(at::globalContext().defaultGenerator(device), numbers.next());
}

void start_random_streams(const TrainState& state, std::uint64_t seed) {
  const auto step = static_cast<std::uint64_t>(state.step);
  const auto number = [](const std::unique_ptr<Replica>& replica) {
    return static_cast<std::uint64_t>(replica->place().index);
  };
  constexpr std::uint64_t kBegins = 1;  // another key than a virtual replica's step has
  std::set<c10::DeviceIndex> started;
  for (const auto& replica : state.replicas) {
    const c10::Device device = replica->place().device;
    if (device.is_cpu() || !started.insert(device.index()).second) continue;
    fill_generators(device, {seed, step, number(replica), kBegins});
  }
  fill_generators(c10::kCPU, {seed, step, number(state.replicas.front()), kBegins});
}

}  // namespace troupe::detail
