// examples/gan/main.cpp -- template/main.cpp with two networks: digits are drawn from noise. What
// is added is the line that has samples written at every evaluation.
#include "examples/gan/gan_hooks.h"
#include "examples/gan/sample_grids.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    GanOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"gan",
         "Learns to draw handwritten digits from noise, with two networks and two optimisers.",
         {"--epochs 10 --model-dir run1", "--data-dir mnist --epochs 3 --samples-dir pictures",
          "--mode train_and_evaluate --model-dir run1 --max-steps 1500 --save-every "
          "300",
          "--mode predict --model-dir run1 --predict-examples 1"}});
    const GanHooks hooks(options, mine);
    troupe::JobExtras extras;
    add_sample_grids(extras.callbacks, mine, options.train.model_dir, options.mode);
    troupe::run_job(hooks, options, extras);
  });
}
