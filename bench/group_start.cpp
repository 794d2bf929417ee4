// A worker that joins its group and leaves: start_up.py measures how long that takes. Free of
// LibTorch, so that what is measured is the group and not the loading of a library. As its
// environment says, it is one of `troupe run`'s workers, or one of a cluster of --cluster and
// --task.
//
// stdout: one line, {"rank": R, "ready": T}: when the group had come together, in seconds of
// CLOCK_MONOTONIC, which all processes of a machine and Python's time.monotonic() share.
#include <ctime>
#include <iomanip>
#include <iostream>

#include "troupe/cli/options.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/log.h"
#include "troupe/distributed/worker_group.h"

namespace {

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    const troupe::Options options = troupe::parse_options(argc, argv);
    troupe::WorkerGroup group(options.strategy.cluster, options.strategy.group);
    group.join({});
    const double ready = monotonic_seconds();
    std::cout << std::fixed << std::setprecision(6) << "{\"rank\": " << group.rank()
              << ", \"ready\": " << ready << "}" << std::endl;
    group.close();
  });
}
