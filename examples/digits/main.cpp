// examples/digits/main.cpp -- writes a data set of handwritten digits, in MNIST's file format.
//
//   build/release/examples/digits --out digits
#include <boost/program_options.hpp>
#include <cstdint>
#include <iostream>
#include <string>

#include "examples/digits/digits.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace po = boost::program_options;

namespace {

constexpr const char* kUsage = R"(Usage: digits --out DIR [options]

Writes generated handwritten digits into DIR, which must be empty or not exist,
as the four files of MNIST: train-images-idx3-ubyte and its kin.

)";

constexpr std::int64_t kMostDigits = 10'000'000;  // 7.8 GB of pixels

int print(const std::string& words) {
  return std::cout << words << std::flush ? 0 : troupe::kExitFailed;
}

void check_range(const std::string& flag, std::int64_t value, std::int64_t most) {
  if (0 <= value && value <= most) return;
  throw troupe::ConfigError(troupe::text("--", flag, " is ", value, "."),
                            troupe::text("give 0 to ", most, "."));
}

int write_digits(int argc, const char* const* argv) {
  std::string out;
  std::int64_t train = troupe::kDefaultTrainDigits + troupe::kDefaultValidationDigits;
  std::int64_t test = troupe::kDefaultTestDigits;
  std::int64_t seed = troupe::kDefaultDigitsSeed;
  po::options_description flags;
  flags.add_options()("help,h", "this text")("out", po::value(&out), "directory to write")(
      "train", po::value(&train)->default_value(train), "training images")(
      "test", po::value(&test)->default_value(test), "test images")(
      "seed", po::value(&seed)->default_value(seed), "another number, other digits");
  po::variables_map given;
  try {
    po::store(po::parse_command_line(argc, argv, flags), given);
    po::notify(given);
  } catch (const po::error& error) {
    throw troupe::ConfigError(troupe::text(error.what(), "."), "see `digits --help`.");
  }
  if (given.count("help") != 0) return print(troupe::text(kUsage, flags));
  if (out.empty()) {
    throw troupe::ConfigError("`digits` was not told where to write.", "write `digits --out DIR`.");
  }
  check_range("train", train, kMostDigits);
  check_range("test", test, kMostDigits);
  check_range("seed", seed, INT64_MAX);
  troupe::write_digits(out, train, test, static_cast<std::uint64_t>(seed));
  return print(
      troupe::text("wrote ", train, " training and ", test, " test digits into ", out, "\n"));
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run_main([&] { return write_digits(argc, argv); });
}
