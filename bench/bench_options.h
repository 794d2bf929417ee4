// What a benchmark that is one program is told on its command line.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <string>

namespace troupe::bench {

/// How long to measure: a smoke run shows that everything works, its numbers mean nothing.
enum class Effort { smoke, full };

struct BenchOptions {
  int rounds = 0;  // 0: as the effort suggests
  Effort effort = Effort::full;
  std::string json_file;  // empty: none
};

/// Reads the command line; `extra` are the benchmark's own options, stored where they say.
/// --help prints and leaves with 0.  Throws: ConfigError.
[[nodiscard]] BenchOptions parse_bench_options(
    int argc, const char* const* argv, const std::string& purpose,
    const boost::program_options::options_description& extra);

}  // namespace troupe::bench
