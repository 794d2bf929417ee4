// troupe: writes training programs, starts groups of workers, says what a machine is ready for.
// Free of LibTorch: it starts in milliseconds and runs where LibTorch does not.
//
//   troupe run --workers 2 -- build/release/examples/mnist --epochs 3
#include <string>
#include <vector>

#include "troupe/cli/run_main.h"
#include "troupe/launcher/verbs.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    return troupe::run_tool(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  });
}
