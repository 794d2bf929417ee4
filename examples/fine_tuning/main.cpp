// examples/fine_tuning/main.cpp -- the whole program; docs/fine_tuning.md has its command.
#include "examples/fine_tuning/fine_tuning_hooks.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    std::string table = "flowers.csv";
    std::int64_t thaw_epoch = 2;
    const troupe::Options options = troupe::parse_options(
        argc, argv,
        {troupe::flag("learning-rate"), troupe::flag("table", &table, "the flowers to learn"),
         troupe::flag("thaw-epoch", &thaw_epoch, "from when on the backbone learns, too")});
    troupe::run_job(FineTuningHooks(options, table, thaw_epoch), options);
  });
}
