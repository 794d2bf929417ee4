// examples/embedding/main.cpp -- template/main.cpp with a recommender: tables of many rows, of
// which a step touches a few, so that parameter servers have only those travel.
#include "examples/embedding/embedding_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    EmbeddingOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"embedding",
         "Learns what users like from ratings, with embedding tables and sparse gradients.",
         {"--batch-size 1024 --learning-rate 0.2",
          "--batch-size 1024 --learning-rate 0.2 --dimension 0",
          "--users 2000 --items 500 --ratings 60000 --epochs 5 --learning-rate 0.2"}});
    const EmbeddingHooks hooks(options, mine);
    troupe::JobExtras extras;
    extras.feature_names = EmbeddingHooks::kFeatures;
    troupe::run_job(hooks, options, extras);
  });
}
