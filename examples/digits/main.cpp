// examples/digits/main.cpp -- writes a data set of handwritten digits, in MNIST's file format.
//
//   build/release/examples/digits --out digits
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/digits/digits.h"
#include "troupe/cli/flags_reading.h"
#include "troupe/cli/flags_table.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace {

constexpr const char* kHelp = R"(Usage: digits --out DIR [options]

Writes generated handwritten digits into DIR, which must be empty or not exist,
as the four files of MNIST: train-images-idx3-ubyte and its kin.

  --out DIR    where to write
  --train N    training images [11000]
  --test N     test images [2000]
  --seed N     another number, other digits [1]
)";

constexpr std::int64_t kMostDigits = 10'000'000;  // 7.8 GB of pixels

int print(const std::string& words) {
  return std::fputs(words.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? troupe::kExitFailed
                                                                           : 0;
}

int write_digits(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") return print(kHelp);
  }
  std::string out;
  std::int64_t train = troupe::kDefaultTrainDigits + troupe::kDefaultValidationDigits;
  std::int64_t test = troupe::kDefaultTestDigits;
  std::int64_t seed = troupe::kDefaultDigitsSeed;
  const troupe::detail::FlagTable table({troupe::flag("out", &out, ""),
                                         troupe::flag("train", &train, "", {0, kMostDigits}),
                                         troupe::flag("test", &test, "", {0, kMostDigits}),
                                         troupe::flag("seed", &seed, "", {0, INT64_MAX})});
  assign(read_command_line(words, table).given, table);
  if (out.empty()) {
    throw troupe::ConfigError("`digits` was not told where to write.", "write `digits --out DIR`.");
  }
  troupe::write_digits(out, train, test, static_cast<std::uint64_t>(seed));
  return print(
      troupe::text("wrote ", train, " training and ", test, " test digits into ", out, "\n"));
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    return write_digits(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  });
}
