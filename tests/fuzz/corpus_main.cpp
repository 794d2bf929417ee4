// A target as a test: seeds, which must be accepted; each of them cut short and with a byte
// changed; and the files of a folder, which found something once.  Run: fuzz_control FOLDER
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "core/log.h"
#include "tests/fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxChanges = 500;  // of one seed, spread over its length

void run_changed(const std::string& seed) {
  const std::size_t stride = seed.size() / kMaxChanges + 1;
  for (std::size_t at = 0; at < seed.size(); at += stride) {
    std::string changed = seed;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    (void)troupe::fuzz::run(changed);
    (void)troupe::fuzz::run(std::string_view(seed).substr(0, at));
  }
}

std::size_t run_files(const fs::path& folder) {
  std::size_t files = 0;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::cout << entry.path().filename().string() << std::endl;  // the last line names a crasher
    (void)troupe::fuzz::run(input);
    ++files;
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FOLDER\n";
    return 2;
  }
  troupe::configure_log(troupe::LogLevel::error, "");
  const auto seeds = troupe::fuzz::seeds();
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (!troupe::fuzz::run(seeds[i])) {
      std::cerr << "seed " << i << " was refused\n";
      return 1;
    }
  }
  std::for_each(seeds.begin(), seeds.end(), run_changed);
  std::cout << seeds.size() << " seeds, " << run_files(argv[1]) << " files\n";
  return seeds.empty() ? 1 : 0;
}
