#include "examples/transformer/text_lines.h"

#include <fstream>

#include "troupe/core/error.h"
#include "troupe/data/split_mix.h"

namespace text_lines {
namespace {

constexpr const char* kNumbers[] = {"nought",  "one",     "two",       "three",    "four",
                                    "five",    "six",     "seven",     "eight",    "nine",
                                    "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                    "fifteen", "sixteen", "seventeen", "eighteen"};

std::string sum(troupe::detail::SplitMix& random) {
  const auto a = random.below(10);
  const auto b = random.below(10);
  return std::string(kNumbers[a]) + " plus " + kNumbers[b] + " is " + kNumbers[a + b];
}

}  // namespace

std::vector<std::string> read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    for (char& c : line) {
      if (c == '\0' || static_cast<unsigned char>(c) > 127) c = '?';
    }
    for (std::size_t at = 0; at < line.size(); at += kLongest - 1) {
      lines.push_back(line.substr(at, kLongest - 1) + '\n');
    }
  }
  if (!lines.empty() && in.eof()) return lines;
  throw troupe::DataError("'" + file.string() + "' cannot be read, or has no lines.",
                          "put text into train.txt and validation.txt of --data-dir.");
}

std::vector<std::string> generate(std::int64_t count, std::uint64_t seed) {
  troupe::detail::SplitMix random(seed);
  std::vector<std::string> lines;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string line = sum(random);
    for (auto more = random.below(6); more > 0; --more) {
      const std::string next = ", " + sum(random);
      if (line.size() + next.size() + 2 > kLongest) break;
      line += next;
    }
    lines.push_back(line + ".\n");
  }
  return lines;
}

}  // namespace text_lines
