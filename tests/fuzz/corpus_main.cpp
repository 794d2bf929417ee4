// The targets as tests: a target's seeds, which must be accepted; each of them cut short and with a
// byte changed; and the files of a folder, which found something once.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/fuzz.h"
#include "troupe/core/log.h"

namespace {

namespace fs = std::filesystem;
using troupe::fuzz::Target;

constexpr std::size_t kMaxChanges = 500;  // of one seed, spread over its length

void run_changed(const Target& target, const std::string& seed) {
  const std::size_t stride = seed.size() / kMaxChanges + 1;
  for (std::size_t at = 0; at < seed.size(); at += stride) {
    std::string changed = seed;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    (void)target.run(changed);
    (void)target.run(std::string_view(seed).substr(0, at));
  }
}

std::size_t run_files(const Target& target, const fs::path& folder) {
  std::size_t files = 0;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::cout << entry.path().filename().string() << std::endl;  // the last line names a crasher
    (void)target.run(input);
    ++files;
  }
  return files;
}

int test(const Target& target, const fs::path& folder) {
  const auto seeds = target.seeds();
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (!target.run(seeds[i])) {
      std::cerr << "seed " << i << " was refused\n";
      return 1;
    }
  }
  for (const std::string& seed : seeds) run_changed(target, seed);
  std::cout << seeds.size() << " seeds, " << run_files(target, folder) << " files\n";
  return seeds.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  troupe::configure_log(troupe::LogLevel::error, "");
  const auto& all = troupe::fuzz::targets();
  const auto asked = std::find_if(all.begin(), all.end(), [&](const Target& target) {
    return argc == 3 && argv[1] == std::string_view(target.name);
  });
  if (asked != all.end()) return test(*asked, argv[2]);
  std::cerr << "usage: " << argv[0] << " TARGET FOLDER\n";
  return 2;
}
