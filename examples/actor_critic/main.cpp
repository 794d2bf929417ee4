// examples/actor_critic/main.cpp -- template/main.cpp with two networks, of which one learns in
// some steps only.
#include "examples/actor_critic/actor_critic_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    ActorCriticOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"actor_critic",
         "Learns from a table of decisions what each is worth, and what to do.",
         {"--csv decisions.csv --epochs 20", "--csv decisions.csv --epochs 20 --model-dir run1",
          "--mode predict --csv decisions.csv --model-dir run1 --predict-examples 3"}});
    troupe::run_job(ActorCriticHooks(options, mine), options);
  });
}
