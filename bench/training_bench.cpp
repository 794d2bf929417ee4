// Data-parallel training of a small convolutional network: Troupe's strategies against loops
// written by hand, with Gloo between the processes, in the same processes and the same rounds.
// Prints Markdown tables; see docs/performance.md.
#include <boost/program_options/options_description.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/bench_options.h"
#include "bench/gloo_group.h"
#include "bench/machine_facts.h"
#include "bench/markdown_table.h"
#include "bench/summary.h"
#include "bench/training_rank.h"
#include "cli/run_main.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace troupe::bench {
namespace {

constexpr std::chrono::milliseconds kLimit{150'000};

TrainingPlan plan_of(const BenchOptions& options) {
  const bool smoke = options.effort == Effort::smoke;
  return {options.rounds > 0 ? options.rounds : (smoke ? 2 : 15), smoke ? 4 : 40};
}

void check_ranks(int ranks) {
  if (kGlobalBatch % ranks == 0) return;
  throw ConfigError(
      text("--ranks ", ranks, " does not divide the global batch of ", kGlobalBatch, " examples."),
      "use 2, 4, 8, 16, 32 or 64 ranks.");
}

/// Names and numbers of one report.
class Results {
 public:
  Results(const nlohmann::ordered_json& seconds, int ranks) : seconds_(seconds), ranks_(ranks) {}

  [[nodiscard]] bool has(const char* way) const { return seconds_.contains(way); }
  [[nodiscard]] std::vector<double> of(const char* way) const {
    return seconds_.at(way).get<std::vector<double>>();
  }
  [[nodiscard]] std::vector<std::string> row(const std::string& label, const char* way,
                                             double examples) const {
    if (!has(way)) return {label, "-", "-"};
    return {label, range_text(summarize(rates(examples, of(way)))), time_text(summarize(of(way)))};
  }
  /// Of what `ranks` times one process alone could do, in percent.
  [[nodiscard]] std::string efficiency(const char* way) const {
    if (!has(way)) return "-";
    std::vector<double> percent = ratios(of("alone"), of(way));
    for (double& value : percent) value *= 100;  // B of the one, ranks x B of the other: cancels
    return range_text(summarize(percent)) + " %";
  }
  /// Added time per step of `way` over `base`, as "12.3 us [..]" of the rounds' differences.
  [[nodiscard]] std::string added(const char* way, const char* base) const {
    const std::vector<double> with = of(way);
    const std::vector<double> without = of(base);
    std::vector<double> differences;
    for (std::size_t i = 0; i < with.size(); ++i) {
      differences.push_back((with[i] - without[i]) * 1e6);
    }
    return range_text(summarize(differences)) + " us";
  }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  const nlohmann::ordered_json& seconds_;
  int ranks_;
};

std::string speed_table(const Results& results) {
  const std::string workers = text(results.ranks(), " workers x ", kGlobalBatch / results.ranks());
  const std::string share = text("1 worker x ", kGlobalBatch / results.ranks());
  const std::string whole = text("1 worker x ", kGlobalBatch);
  MarkdownTable rows({"what trains", "samples/s", "time of a step"});
  rows.add(results.row(workers + ", Troupe multi-worker", "troupe", kGlobalBatch));
  rows.add(results.row(workers + ", by hand, Gloo", "gloo", kGlobalBatch));
  rows.add(results.row(share + ", by hand, alone", "alone",
                       static_cast<double>(kGlobalBatch) / results.ranks()));
  rows.add(results.row(whole + ", Troupe one-device", "one_device", kGlobalBatch));
  rows.add(results.row(whole + ", by hand", "one_device_bare", kGlobalBatch));
  return rows.text();
}

std::string ratio_table(const Results& results) {
  const std::string ideal = text(" / (", results.ranks(), " x alone)");
  MarkdownTable rows({"compared", "median of the rounds [min-max]"});
  rows.add({"samples/s, Troupe / Gloo",
            results.has("gloo")
                ? ratio_text(summarize(ratios(results.of("gloo"), results.of("troupe"))))
                : "-"});
  rows.add({"efficiency, Troupe" + ideal, results.efficiency("troupe")});
  rows.add({"efficiency, Gloo" + ideal, results.efficiency("gloo")});
  rows.add({"added to a step, Troupe multi-worker - alone", results.added("troupe", "alone")});
  rows.add({"added to a step, Troupe one-device - by hand",
            results.added("one_device", "one_device_bare")});
  return rows.text();
}

void run_as_parent(const BenchOptions& options, const TrainingPlan& plan) {
  nlohmann::ordered_json report = {{"benchmark", "training"}, {"machine", machine_facts()}};
  report["ranks"] = options.place.count;
  report["global_batch"] = kGlobalBatch;
  report["rounds"] = plan.rounds;
  report["steps_per_round"] = plan.steps;
  report["seconds_per_step"] =
      nlohmann::ordered_json::parse(run_ranks(options.place.count, options.arguments, kLimit));
  report["load_average_after"] = load_average();
  const Results results(report["seconds_per_step"], options.place.count);
  std::cout << "## Training, examples/mnist, global batch " << kGlobalBatch
            << ", one compute thread per worker, " << plan.rounds << " rounds of " << plan.steps
            << " steps\n\n"
            << machine_line(report["machine"]) << "\n\nGloo: " << gloo_status() << "\n\n"
            << speed_table(results) << "\n"
            << ratio_table(results) << std::flush;
  if (!options.json_file.empty()) write_report(options.json_file, report);
}

int run(int argc, const char* const* argv) {
  const BenchOptions options = parse_bench_options(
      argc, argv, "Measures training steps: Troupe against loops by hand, interleaved.", {});
  check_ranks(options.place.count);
  configure_log(LogLevel::warning, "");
  const TrainingPlan plan = plan_of(options);
  if (options.place.rank < 0) {
    run_as_parent(options, plan);
  } else {
    const nlohmann::ordered_json seconds = measure_training(options.place, plan);
    if (options.place.rank == 0) std::cout << seconds << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] { return troupe::bench::run(argc, argv); });
}
