// examples/resnet/main.cpp -- template/main.cpp with a residual network: CIFAR-10's files
// (--data-dir) or generated shapes, moved and mirrored at random.
#include "examples/resnet/resnet_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    ResNetOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"resnet",
         "Trains a residual network to name what is in small coloured pictures.",
         {"--epochs 3", "--width 4 --train-examples 2000 --epochs 3",
          "--data-dir cifar-10-batches-bin --width 64 --epochs 20 --weight-decay 0.0005",
          "--mode train_and_evaluate --model-dir run1 --max-steps 600 --save-every "
          "100"}});
    const ResNetHooks hooks(options, mine);
    troupe::run_job(hooks, options);
  });
}
