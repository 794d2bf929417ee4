// examples/transformer/main.cpp -- template/main.cpp with a model of text: ragged examples, in
// batches of similar lengths, and a mean over characters.
#include "examples/transformer/transformer_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    TransformerOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"transformer",
         "Learns to continue lines of text, character by character.",
         {"--learning-rate 0.002 --epochs 2", "--data-dir texts --max-steps 1000"}});
    const TransformerHooks hooks(options, mine);
    troupe::JobExtras extras;
    extras.feature_names = TransformerHooks::kFeatures;
    troupe::run_job(hooks, options, extras);
  });
}
