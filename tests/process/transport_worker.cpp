// A worker with the command line of every training, but nothing to train: sums values in its own
// memory and in a buffer, and prints one digest of all bits.
//   transport_worker [--transport NAME ...]     (started by troupe run)
#include <cstdio>
#include <string>
#include <vector>

#include "troupe/cli/options.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/sha256.h"
#include "troupe/distributed/worker_group.h"

namespace {

troupe::Deadline soon() { return troupe::Deadline::in(std::chrono::seconds(60)); }

void fill(troupe::Span<float> values, int rank) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>((i * 2654435761U + 40503U * static_cast<unsigned>(rank)) % 10007) / 3.0F;
  }
}

void work(int argc, char** argv) {
  const troupe::Options options = troupe::parse_options(argc, argv);
  troupe::WorkerGroup group(options.strategy.cluster, options.strategy.group);
  group.join({{"model"}, options.strategy.must_match});
  troupe::Sha256 digest;
  for (const std::size_t n : {std::size_t{5}, std::size_t{5000}, std::size_t{300'000}}) {
    std::vector<float> own(n);
    const auto buffer = group.make_buffer(n * sizeof(float), soon());
    for (float* const memory : {own.data(), reinterpret_cast<float*>(buffer.get())}) {
      const troupe::Span<float> values(memory, n);
      fill(values, group.rank());
      group.all_reduce(values, soon());
      digest.update(troupe::as_bytes(values));
    }
  }
  std::printf("digest %d %s\n", group.rank(), digest.hex().c_str());
  group.close();
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] { work(argc, argv); });
}
