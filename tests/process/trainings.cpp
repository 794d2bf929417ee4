#include "tests/process/trainings.h"

#include <cstdio>
#include <map>
#include <string_view>

#include "troupe/core/error.h"

int main(int argc, char** argv) {
  const std::map<std::string_view, int (*)(int, char**)> trainings = {
      {"engine_worker", engine_worker},
      {"stream_net", stream_net},
      {"virtual_net", virtual_net},
      {"wrong_hook", wrong_hook}};
  const auto named = trainings.find(argc < 2 ? "" : argv[1]);
  if (named != trainings.end()) return named->second(argc - 1, argv + 1);
  std::fputs("usage: trainings NAME FLAG...; NAME is a file of tests/process\n", stderr);
  return troupe::kExitUsage;
}
