// A program whose step throws on rank 1: what do the other workers say?
#include "cli/options.h"
#include "cli/run_main.h"
#include "tests/support/tiny_hooks.h"
#include "train/loop.h"
#include "train/make_strategy.h"

class FailingHooks final : public troupe::testing::TinyHooks {
 public:
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    if (replica.place().index == 1) throw std::runtime_error("the hook of rank 1 gave up");
    return TinyHooks::train_step(replica, batch);
  }
};

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(argc, argv);
    const FailingHooks hooks;
    const auto strategy = troupe::make_strategy(options.strategy);
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
    (void)troupe::train(*strategy, hooks, state, data, options.train);
    strategy->close();
  });
}
