#include "bench/bench_options.h"

#include <boost/program_options/value_semantic.hpp>

#include "bench/parse_options.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::bench {
namespace po = boost::program_options;

namespace {

constexpr int kMaxRounds = 10'000;

void check(const char* flag, int value, int lowest, int highest) {
  if (value >= lowest && value <= highest) return;
  throw ConfigError(text(flag, " is ", value, "."),
                    text("give a number from ", lowest, " to ", highest, "."));
}

}  // namespace

BenchOptions parse_bench_options(int argc, const char* const* argv, const std::string& purpose,
                                 const po::options_description& extra) {
  BenchOptions options;
  po::options_description shown("Options");
  // clang-format off
  shown.add_options()
      ("help,h", "print this and leave")
      ("rounds", po::value(&options.rounds)->value_name("N"), "rounds of alternating blocks")
      ("smoke", "a short run that shows that everything works; its numbers mean nothing")
      ("json", po::value(&options.json_file)->value_name("FILE"), "write every number to FILE");
  // clang-format on
  shown.add(extra);
  const po::variables_map given = parse_options(argc, argv, purpose, shown);
  if (given.count("smoke") > 0) options.effort = Effort::smoke;
  check("--rounds", options.rounds, 0, kMaxRounds);
  return options;
}

}  // namespace troupe::bench
