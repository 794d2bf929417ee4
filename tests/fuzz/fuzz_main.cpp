// A target as libFuzzer runs it: `./dev fuzz`. Seeds go to the folder that TROUPE_FUZZ_SEEDS names.
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/fuzz.h"
#include "troupe/core/log.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // What parsers warn about would be most of the time that a run takes.
  troupe::configure_log(troupe::LogLevel::error, "");
  if (const char* const folder = std::getenv("TROUPE_FUZZ_SEEDS")) {
    int number = 0;
    for (const std::string& seed : troupe::fuzz::targets().front().seeds()) {
      std::ofstream(folder + ("/seed-" + std::to_string(number++)), std::ios::binary) << seed;
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)troupe::fuzz::targets().front().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
