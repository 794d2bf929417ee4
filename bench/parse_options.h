// Command lines of benchmark programs: as those of Troupe, without abbreviations or words that
// belong to no option.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>
#include <iostream>
#include <string>

#include "troupe/cli/clean_exit.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::bench {

/// Fills what `shown` is bound to; returns which options were given. With --help, which `shown`
/// has, it prints `purpose` and the options, and the program ends with 0. Throws: ConfigError for
/// anything that is no option, or no value of one.
inline boost::program_options::variables_map parse_options(
    int argc, const char* const* argv, const std::string& purpose,
    const boost::program_options::options_description& shown) {
  namespace po = boost::program_options;
  po::variables_map given;
  try {
    po::store(
        po::command_line_parser(argc, argv)
            .options(shown)
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
  return given;
}

}  // namespace troupe::bench
