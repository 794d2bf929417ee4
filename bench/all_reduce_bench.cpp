// All-reduce of float32 over loopback TCP: Troupe's worker group against c10d over Gloo, in the
// same processes and the same rounds. Prints a Markdown table; see docs/performance.md.
#include <boost/program_options/value_semantic.hpp>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/all_reduce_rank.h"
#include "bench/bench_options.h"
#include "bench/gloo_group.h"
#include "bench/machine_facts.h"
#include "bench/markdown_table.h"
#include "bench/summary.h"
#include "cli/run_main.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace troupe::bench {
namespace {

constexpr std::chrono::milliseconds kLimit{120'000};
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

/// "4", "16K", "64M"
std::size_t parse_size(const std::string& written) {
  char* end = nullptr;
  const unsigned long long number = std::strtoull(written.c_str(), &end, 10);
  const std::string unit = end;
  const std::size_t factor = unit == "K" ? 1024 : (unit == "M" ? 1024 * 1024 : 1);
  const bool known = end != written.c_str() && (unit.empty() || factor > 1);
  if (!known || number == 0 || number > kMaxBytes / factor || number * factor % 4 != 0) {
    throw ConfigError(text("--sizes: '", written, "' is no size of float32 values up to 1024M."),
                      "write bytes, a multiple of 4, with K or M behind if you like: 4,16K,64M.");
  }
  return number * factor;
}

std::vector<std::size_t> parse_sizes(const std::string& list) {
  std::vector<std::size_t> sizes;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) sizes.push_back(parse_size(word));
  if (sizes.empty()) throw ConfigError("--sizes is empty.", "write for example 4,16K,64M.");
  return sizes;
}

AllReducePlan plan_of(const BenchOptions& options, const std::string& sizes) {
  const bool smoke = options.effort == Effort::smoke;
  const char* usual = smoke ? "4,1K,128K" : "4,1K,16K,128K,1M,8M,64M";
  return {parse_sizes(sizes.empty() ? usual : sizes),
          options.rounds > 0 ? options.rounds : (smoke ? 3 : 15),
          std::chrono::milliseconds(smoke ? 2 : 60)};
}

std::vector<double> seconds_of(const nlohmann::ordered_json& result, const char* engine) {
  return result.at(engine).at("seconds").get<std::vector<double>>();
}

std::string rate_text(std::size_t bytes, const std::vector<double>& seconds) {
  return number_text(summarize(rates(static_cast<double>(bytes) * 1e-9, seconds)).median);
}

std::string table(const nlohmann::ordered_json& results) {
  MarkdownTable rows(
      {"size", "Troupe", "GB/s", "Gloo", "GB/s", "memcpy GB/s", "t(Gloo) / t(Troupe)"});
  for (const auto& result : results) {
    const auto bytes = result.at("bytes").get<std::size_t>();
    const auto ours = seconds_of(result, "troupe");
    std::vector<std::string> row = {bytes_text(bytes),
                                    time_text(summarize(ours)),
                                    rate_text(bytes, ours),
                                    "-",
                                    "-",
                                    rate_text(bytes, seconds_of(result, "memcpy")),
                                    "-"};
    if (result.contains("gloo")) {
      const auto theirs = seconds_of(result, "gloo");
      row[3] = time_text(summarize(theirs));
      row[4] = rate_text(bytes, theirs);
      row[6] = ratio_text(summarize(ratios(theirs, ours)));
    }
    rows.add(std::move(row));
  }
  return rows.text();
}

void run_as_parent(const BenchOptions& options, const AllReducePlan& plan) {
  nlohmann::ordered_json report = {{"benchmark", "all_reduce"}, {"machine", machine_facts()}};
  report["ranks"] = options.place.count;
  report["rounds"] = plan.rounds;
  report["results"] =
      nlohmann::ordered_json::parse(run_ranks(options.place.count, options.arguments, kLimit));
  report["load_average_after"] = load_average();
  std::cout << "## All-reduce, float32, " << options.place.count << " ranks, loopback TCP, "
            << plan.rounds << " rounds\n\n"
            << machine_line(report["machine"]) << "\n\nGloo: " << gloo_status() << "\n\n"
            << table(report["results"]) << std::flush;
  if (!options.json_file.empty()) write_report(options.json_file, report);
}

int run(int argc, const char* const* argv) {
  std::string sizes;
  boost::program_options::options_description extra;
  extra.add_options()("sizes", boost::program_options::value(&sizes)->value_name("LIST"),
                      "bytes, for example 4,16K,64M");
  const BenchOptions options = parse_bench_options(
      argc, argv, "Measures all-reduce over loopback: Troupe against Gloo, interleaved.", extra);
  const AllReducePlan plan = plan_of(options, sizes);
  configure_log(LogLevel::warning, "");
  if (options.place.rank < 0) {
    run_as_parent(options, plan);
  } else {
    const nlohmann::ordered_json results = measure_all_reduce(options.place, plan);
    if (options.place.rank == 0) std::cout << results << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] { return troupe::bench::run(argc, argv); });
}
