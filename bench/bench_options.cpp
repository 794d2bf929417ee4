#include "bench/bench_options.h"

#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <iostream>

#include "cli/run_main.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe::bench {
namespace po = boost::program_options;

namespace {

constexpr int kMaxRanks = 64;
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
  RankPlace& place = options.place;
  po::options_description shown("Options");
  // clang-format off
  shown.add_options()
      ("help,h", "print this and leave")
      ("ranks", po::value(&place.count)->value_name("N"), "processes (default 2)")
      ("rounds", po::value(&options.rounds)->value_name("N"), "rounds of alternating blocks")
      ("smoke", "a short run that shows that everything works; its numbers mean nothing")
      ("json", po::value(&options.json_file)->value_name("FILE"), "write every number to FILE");
  po::options_description hidden;
  hidden.add_options()
      ("rank", po::value(&place.rank))
      ("port", po::value(&place.port))
      ("listen-fd", po::value(&place.listen_fd))
      ("store-file", po::value(&place.store_file));
  // clang-format on
  shown.add(extra);
  po::options_description all;
  all.add(shown).add(hidden);
  po::variables_map given;
  try {
    po::store(
        po::command_line_parser(argc, argv)
            .options(all)
            .positional({})
            .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
            .run(),
        given);
    po::notify(given);
  } catch (const po::error& error) {
    throw ConfigError(text(error.what(), "."), "see --help.");
  }
  if (given.count("help") > 0) {
    std::cout << purpose << "\n\n" << shown;
    throw detail::CleanExit{};
  }
  if (given.count("smoke") > 0) options.effort = Effort::smoke;
  check("--ranks", place.count, 2, kMaxRanks);
  check("--rounds", options.rounds, 0, kMaxRounds);
  options.arguments.assign(argv + 1, argv + argc);
  return options;
}

}  // namespace troupe::bench
