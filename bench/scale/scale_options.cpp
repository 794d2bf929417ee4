#include "bench/scale/scale_options.h"

#include <boost/program_options/value_semantic.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/parse_options.h"
#include "bench/summary.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "core/version.h"

namespace troupe::bench {
namespace po = boost::program_options;

namespace {

constexpr double kMaxRanks = 1024;
constexpr double kMaxBytes = 1U << 28U;

struct Given {
  std::string ranks;
  std::string sizes;
  int rounds = 0;
  int compute_ms = 5;
  double delay_us = 0;
  double rate = 0;
  int group = 0;
  double uplink_delay_us = 0;
  double uplink_rate = 0;
  double message_us = 0;
  std::string route = "automatic";
};

SumRoute route_named(const std::string& name) {
  if (name == "automatic") return SumRoute::automatic;
  if (name == "doubling") return SumRoute::doubling;
  if (name == "direct") return SumRoute::direct;
  if (name == "two-level") return SumRoute::two_level;
  throw ConfigError(text("--route is '", name, "'."),
                    "write automatic, doubling, direct or two-level.");
}

/// "8,16K,1M": whole numbers from `lowest` to `highest`.
std::vector<std::size_t> numbers(const char* flag, const std::string& list, double lowest,
                                 double highest) {
  std::vector<std::size_t> found;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    const std::string unit = end;
    const double factor = unit == "K" ? 1024 : (unit == "M" ? 1024 * 1024 : 1);
    const double value = number * factor;
    const bool known = end != word.c_str() && (unit.empty() || factor > 1);
    if (!known || value != std::floor(value) || value < lowest || value > highest) {
      throw ConfigError(
          text(flag, ": '", word, "' is not a number from ", lowest, " to ", highest, "."),
          "write for example 8,16 or, for bytes, 4K,1M.");
    }
    found.push_back(static_cast<std::size_t>(value));
  }
  if (found.empty()) throw ConfigError(text(flag, " is empty."), "give at least one number.");
  return found;
}

void check(const char* flag, double value, double lowest, double highest) {
  if (value >= lowest && value <= highest) return;  // false for NaN
  throw ConfigError(text(flag, " is ", value, "."),
                    text("give a number from ", lowest, " to ", highest, "."));
}

std::chrono::nanoseconds microseconds(double value) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value * 1e3));
}

NetworkShape shape_of(const Given& given) {
  constexpr double kMega = 1e6;
  return {microseconds(given.delay_us), given.rate * kMega, given.group,
          microseconds(given.uplink_delay_us), given.uplink_rate * kMega};
}

void check_groups(const ScaleOptions& options) {
  if (!options.two_level) return;
  const int group = options.network ? options.network->group_size : 0;
  if (group < 2) {
    throw ConfigError("--two-level has no groups.", "give --group, --delay-us and --rate, too.");
  }
  for (const int ranks : options.ranks) {
    if (ranks % group == 0 && (ranks & (ranks - 1)) == 0) continue;
    throw ConfigError(
        text("--ranks ", ranks, " is no power of two, or no multiple of --group ", group, "."),
        "give powers of two that are multiples of the group.");
  }
}

po::options_description shown_options(Given& given, ScaleOptions& options) {
  po::options_description shown("Options");
  // clang-format off
  shown.add_options()
      ("help,h", "print this and leave")
      ("ranks", po::value(&given.ranks)->value_name("LIST"), "default 8,16,32,64,128,256")
      ("sizes", po::value(&given.sizes)->value_name("LIST"), "bytes, default 4K,64K,1M")
      ("rounds", po::value(&given.rounds)->value_name("N"), "of everything, default 5")
      ("compute-ms", po::value(&given.compute_ms)->value_name("MS"), "sleep before an all-reduce, default 5")
      ("delay-us", po::value(&given.delay_us)->value_name("US"), "one way between two ranks (alpha)")
      ("rate", po::value(&given.rate)->value_name("MB/S"), "of each rank's port, each way (beta)")
      ("group", po::value(&given.group)->value_name("N"), "ranks that share an uplink")
      ("uplink-delay-us", po::value(&given.uplink_delay_us)->value_name("US"), "more, between groups")
      ("uplink-rate", po::value(&given.uplink_rate)->value_name("MB/S"), "of a group's uplink, each way")
      ("message-us", po::value(&given.message_us)->value_name("US"), "with --two-level: a message's cost to its sender")
      ("route", po::value(&given.route)->value_name("NAME"), "automatic, doubling, direct or two-level")
      ("sum-group", po::value(&options.sum_group)->value_name("N"), "groups of the two-level all-reduce, a power of two")
      ("two-level", "simulate flat and two-level all-reduce on that network; nothing is sent")
      ("smoke", "a short run that shows that everything works; its numbers mean nothing")
      ("json", po::value(&options.json_file)->value_name("FILE"), "write every number to FILE");
  // clang-format on
  return shown;
}

}  // namespace

ScaleOptions parse_scale_options(int argc, const char* const* argv) {
  Given given;
  ScaleOptions options;
  const po::options_description shown = shown_options(given, options);
  const po::variables_map map = parse_options(
      argc, argv,
      "Measures rendezvous, barrier and all-reduce at growing numbers of ranks: over\n"
      "loopback, or with --delay-us and --rate over an emulated network of namespaces\n"
      "(Linux, /dev/net/tun; as root, or where users may make namespaces).",
      shown);
  const bool smoke = map.count("smoke") > 0;
  options.two_level = map.count("two-level") > 0;
  check("--rounds", given.rounds, 0, 1000);
  check("--compute-ms", given.compute_ms, 0, 10'000);
  check("--delay-us", given.delay_us, 0, 1e6);
  check("--rate", given.rate, 0, 1e6);
  check("--group", given.group, 0, kMaxRanks);
  check("--uplink-delay-us", given.uplink_delay_us, 0, 1e6);
  check("--uplink-rate", given.uplink_rate, 0, 1e6);
  check("--message-us", given.message_us, 0, 1e6);
  check("--sum-group", options.sum_group, 0, kMaxRanks);
  if (options.sum_group > 0 && (options.sum_group & (options.sum_group - 1)) != 0) {
    throw ConfigError(text("--sum-group is ", options.sum_group, "."), "give a power of two.");
  }
  options.route = route_named(given.route);
  options.rounds = given.rounds > 0 ? given.rounds : (smoke ? 2 : 5);
  options.compute = std::chrono::milliseconds(given.compute_ms);
  options.per_message = microseconds(given.message_us);
  const std::string usual_ranks = smoke ? "8" : "8,16,32,64,128,256";
  const std::string usual_sizes = smoke ? "4K,256K" : "4K,64K,1M";
  for (const auto count :
       numbers("--ranks", given.ranks.empty() ? usual_ranks : given.ranks, 2, kMaxRanks)) {
    options.ranks.push_back(static_cast<int>(count));
  }
  options.sizes = numbers("--sizes", given.sizes.empty() ? usual_sizes : given.sizes, 4, kMaxBytes);
  if (given.delay_us > 0 || given.rate > 0) options.network = shape_of(given);
  check_groups(options);
  options.arguments.assign(argv + 1, argv + argc);
  return options;
}

std::string describe(const ScaleOptions& options) {
  const Machine machine = inspect_machine();
  std::string lines = text(machine.cores.usable, " cores, Troupe ", kVersion, "; bench_scale");
  for (const std::string& word : options.arguments) lines += " " + word;
  if (!options.network) return lines + "\nloopback: the machine's cores are the limit";
  const auto ms = [](std::chrono::nanoseconds time) {
    return number_text(std::chrono::duration<double>(time).count() * 1e3);
  };
  const NetworkShape& network = *options.network;
  lines += text("\nevery port: ", ms(network.delay), " ms one way, ",
                number_text(network.port_rate * 1e-6), " MB/s each way");
  if (network.group_size > 0) {
    lines += text("; groups of ", network.group_size, ": uplink of ",
                  number_text(network.uplink_rate * 1e-6), " MB/s, ", ms(network.uplink_delay),
                  " ms more");
  }
  return lines;
}

void write_results(const ScaleOptions& options, const nlohmann::ordered_json& results) {
  if (options.json_file.empty()) return;
  nlohmann::ordered_json report = {{"benchmark", options.two_level ? "two_level" : "scale"},
                                   {"version", kVersion},
                                   {"cores", inspect_cores().usable},
                                   {"arguments", options.arguments},
                                   {"results", results}};
  const std::string temporary = options.json_file + ".tmp";
  std::ofstream file(temporary);
  file << report.dump(2) << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), options.json_file.c_str()) != 0) {
    throw EnvironmentError(text("'", options.json_file, "' cannot be written."),
                           "pass --json a file in a directory where this user may write.");
  }
}

}  // namespace troupe::bench
