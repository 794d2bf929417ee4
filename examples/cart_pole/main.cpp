// examples/cart_pole/main.cpp -- template/main.cpp with reinforcement learning: a policy that
// learns from environments of its own.
#include "examples/cart_pole/ppo_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    PpoOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"cart_pole",
         "Learns to keep a pole upright on a cart, by PPO.",
         {"--batch-size 8 --epochs 40 --learning-rate 0.001",
          "--batch-size 8 --epochs 40 --learning-rate 0.001 --best return --model-dir run1"}});
    troupe::run_job(PpoHooks(options, mine), options);
  });
}
