// examples/contrastive/main.cpp -- template/main.cpp with contrastive learning: digits that are
// told apart without their labels.
#include "examples/contrastive/contrastive_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(
        argc, argv, ContrastiveHooks::flags(),
        {"contrastive",
         "Learns from pictures of digits without their labels, by SimCLR.",
         {"--epochs 3 --batch-size 256 --learning-rate 0.3",
          "--mode train_and_evaluate --model-dir run1 --max-steps 600 --save-every 100"}});
    const ContrastiveHooks hooks(options);
    troupe::run_job(hooks, options);
  });
}
