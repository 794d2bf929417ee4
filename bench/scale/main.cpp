// bench_scale: how rendezvous, barrier and all-reduce grow with the number of ranks, over loopback
// or an emulated network, beside the cost models; and with --two-level, where an all-reduce over
// groups would pay. Prints Markdown tables; see docs/scale.md.
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/markdown_table.h"
#include "bench/scale/cost_model.h"
#include "bench/scale/network_port.h"
#include "bench/scale/scale_options.h"
#include "bench/scale/schedules.h"
#include "bench/scale/world.h"
#include "bench/summary.h"
#include "cli/run_main.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/collectives/collectives.h"
#include "distributed/collectives/topology.h"

namespace troupe::bench {
namespace {

using Json = nlohmann::ordered_json;

Summary seconds_in(const Json& series) {
  return summarize(series.at("seconds").get<std::vector<double>>());
}

std::string percent(const Json& series) {
  return number_text(100 * series.at("cpu_share").get<double>()) + " %";
}

class Report {
 public:
  explicit Report(const ScaleOptions& options)
      : options_(options),
        rows_({"ranks", "what", "measured", "CPU", "model", "measured / model", "ring's model",
               "simulated"}) {}

  void add(const Json& world) {
    const int ranks = world.at("ranks");
    Row rendezvous{ranks, "rendezvous", rendezvous_cost(ranks)};
    rendezvous.fitted = false;
    add_row(rendezvous, world.at("rendezvous"));
    add_row({ranks, "barrier", barrier_cost(ranks)}, world.at("barrier"));
    for (const Json& one : world.at("all_reduce")) {
      add_row(all_reduce_row(ranks, one.at("bytes").get<std::size_t>()), one);
    }
  }
  void print() const {
    std::cout << rows_.text();
    if (!options_.network || seen_.size() < 2) return;
    const Parameters fitted = fit(seen_);
    const NetworkShape& network = *options_.network;
    std::cout << "\nbarrier and all-reduce with at most half of the CPU busy fit alpha = "
              << number_text(fitted.alpha * 1e3)
              << " ms and beta = " << number_text(fitted.beta * 1e-6) << " MB/s; the network has "
              << number_text(std::chrono::duration<double>(network.delay).count() * 1e3)
              << " ms and " << number_text(network.port_rate * 1e-6) << " MB/s\n";
  }

 private:
  struct Row {
    int ranks;
    std::string what;
    Cost cost;
    std::optional<Schedule> schedule = std::nullopt;
    std::optional<Cost> ring = std::nullopt;
    bool fitted = true;
  };

  [[nodiscard]] Parameters parameters() const {
    const NetworkShape network = options_.network.value_or(NetworkShape{});
    return {std::chrono::duration<double>(network.delay).count(), network.port_rate, 0};
  }
  /// Of what WorkerGroup::all_reduce runs for this length.
  [[nodiscard]] Row all_reduce_row(int ranks, std::size_t bytes) const {
    const bool forced = options_.route != SumRoute::automatic;
    const SumRoute route = forced ? options_.route : route_of(bytes, ranks);
    const int group = group_size_for(ranks, options_.sum_group);
    const std::string what = text("all-reduce ", bytes_text(bytes));
    Row row{ranks, what + ", direct", direct_cost(ranks, bytes)};
    if (route == SumRoute::direct) {
      row.schedule = direct_schedule(ranks, bytes);
    } else if (route == SumRoute::two_level) {
      row.what = text(what, ", groups of ", group);
      row.cost = two_level_cost(ranks, group, bytes);
      if (ranks % group == 0) row.schedule = two_level_schedule(ranks, group, bytes);
    } else {
      row.what = what + ", doubling";
      row.cost = doubling_cost(ranks, bytes);
      if ((ranks & (ranks - 1)) == 0) row.schedule = doubling_schedule(ranks, bytes);
    }
    row.ring = ring_cost(ranks, bytes);
    return row;
  }
  void add_row(const Row& row, const Json& series) {
    const Summary measured = seconds_in(series);
    std::vector<std::string> cells = {std::to_string(row.ranks),
                                      row.what,
                                      time_text(measured),
                                      percent(series),
                                      "-",
                                      "-",
                                      "-",
                                      "-"};
    if (options_.network) {
      const bool one_switch = options_.network->group_size == 0;
      const double predicted = seconds_of(row.cost, parameters());
      if (one_switch) cells[4] = one_time(predicted);
      if (one_switch) cells[5] = number_text(measured.median / predicted);
      if (row.ring && one_switch) cells[6] = one_time(seconds_of(*row.ring, parameters()));
      if (row.schedule) {
        cells[7] =
            one_time(simulate(*row.schedule, *options_.network, std::chrono::nanoseconds(0)));
      }
      const bool network_bound = series.at("cpu_share").get<double>() <= 0.5;
      if (row.fitted && network_bound && one_switch) seen_.push_back({row.cost, measured.median});
    }
    rows_.add(std::move(cells));
  }
  static std::string one_time(double seconds) {
    return seconds < 1e-3 ? number_text(seconds * 1e6) + " us" : number_text(seconds * 1e3) + " ms";
  }

  const ScaleOptions& options_;
  MarkdownTable rows_;
  std::vector<Observation> seen_;
};

void print_resources(const Json& worlds) {
  MarkdownTable rows({"ranks", "threads", "descriptors", "resident per rank"});
  for (const Json& world : worlds) {
    rows.add({std::to_string(world.at("ranks").get<int>()),
              std::to_string(world.at("threads").get<int>()),
              std::to_string(world.at("descriptors").get<int>()),
              text(world.at("resident_bytes_per_rank").get<std::int64_t>() / 1024, " KiB")});
  }
  std::cout << "\n" << rows.text();
}

/// Simulated: flat algorithms against the two-level one on the network of the options.
Json two_level(const ScaleOptions& options) {
  const NetworkShape& network = *options.network;
  MarkdownTable rows(
      {"ranks", "size", "ring", "direct", "doubling", "two-level", "best flat / two-level"});
  Json results = Json::array();
  for (const int ranks : options.ranks) {
    for (const std::size_t bytes : options.sizes) {
      const auto run = [&](const Schedule& schedule) {
        return simulate(schedule, network, options.per_message) * 1e3;
      };
      const double ring = run(ring_schedule(ranks, bytes));
      const double direct = run(direct_schedule(ranks, bytes));
      const double doubling = run(doubling_schedule(ranks, bytes));
      const double both = run(two_level_schedule(ranks, network.group_size, bytes));
      const double flat = std::min({ring, direct, doubling});
      results.push_back({{"ranks", ranks},
                         {"bytes", bytes},
                         {"ring_ms", ring},
                         {"direct_ms", direct},
                         {"doubling_ms", doubling},
                         {"two_level_ms", both}});
      rows.add({std::to_string(ranks), bytes_text(bytes), number_text(ring) + " ms",
                number_text(direct) + " ms", number_text(doubling) + " ms",
                number_text(both) + " ms", number_text(flat / both) + "x"});
    }
  }
  std::cout << "## Simulated all-reduce, groups of " << network.group_size << "\n\n"
            << describe(options) << "\n\n"
            << rows.text();
  return results;
}

Json measure(const ScaleOptions& options) {
  Json worlds = Json::array();
  Report report(options);
  for (const int ranks : options.ranks) {
    WorldPlan plan{ranks, options.sizes, options.rounds, options.compute, options.network};
    plan.route = options.route;
    plan.sum_group = options.sum_group;
    if (options.route == SumRoute::direct) {  // one group: then all are linked with all
      plan.sum_group = 1;
      while (plan.sum_group < ranks) plan.sum_group *= 2;
    }
    worlds.push_back(measured_in_child(plan));
    report.add(worlds.back());
  }
  std::cout << "## Scale, " << options.rounds << " rounds\n\n" << describe(options) << "\n\n";
  report.print();
  print_resources(worlds);
  return worlds;
}

int run(int argc, const char* const* argv) {
  const ScaleOptions options = parse_scale_options(argc, argv);
  configure_log(LogLevel::error, "");
  const Json results = options.two_level ? two_level(options) : measure(options);
  write_results(options, results);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] { return troupe::bench::run(argc, argv); });
}
