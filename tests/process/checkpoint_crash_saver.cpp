// Saves one checkpoint: what checkpoint_crash_test.cpp kills at every system call.
//   checkpoint_crash_saver <model directory> <step>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/unit/train/checkpoint_samples.h"
#include "troupe/core/file_system.h"
#include "troupe/train/checkpoint/checkpoint_writer.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // The mark in a trace after which calls are ours, not the loader's.
  static_cast<void>(::access("/checkpoint-crash-saver-starts", F_OK));
  try {
    troupe::PosixFileSystem files(argv[1]);
    troupe::CheckpointWriter writer(files, troupe::this_process(1), {2});
    troupe::testing::save_sample(writer, std::strtol(argv[2], nullptr, 10));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
