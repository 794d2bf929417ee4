#include "troupe/strategies/replicas/random_fill.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

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

}  // namespace troupe::detail
