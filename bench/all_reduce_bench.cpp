// One rank of the all-reduce benchmark; bench/all_reduce.py starts the ranks and says what to
// measure. Requests: "check ENGINE BYTES", "time ENGINE BYTES REPETITIONS", "end".
//   bench_all_reduce PLACE     PLACE: an AllReducePlace as JSON
//   bench_all_reduce --facts   prints what the numbers depend on, as JSON
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/all_reduce_engines.h"
#include "bench/control.h"
#include "bench/gloo_group.h"
#include "bench/machine_facts.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe::bench {
namespace {

AllReducePlace place_of(const std::string& written) {
  const auto json = nlohmann::json::parse(written);
  AllReducePlace place;
  json.at("rank").get_to(place.rank);
  json.at("ranks").get_to(place.ranks);
  json.at("ports").get_to(place.ports);
  json.at("listen_fds").get_to(place.listen_fds);
  json.at("address").get_to(place.address);
  json.at("folder").get_to(place.folder);
  json.at("most_bytes").get_to(place.most_bytes);
  return place;
}

/// Rank `rank`'s value at `index` for the check: fractions, so that a lost addend shows, and so
/// does an addition in another order.
float check_value(std::size_t index, int rank) {
  return static_cast<float>((index * 31 + static_cast<std::size_t>(rank) * 17) % 1009) / 1013.0F;
}

/// FNV-1a over the words of `values`.
std::uint64_t digest_of(Span<const float> values) {
  std::uint64_t digest = 14695981039346656037U;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    digest = (digest ^ bits) * 1099511628211U;
  }
  return digest;
}

class Rank {
 public:
  explicit Rank(const AllReducePlace& place) : place_(place), engines_(place) {}

  void serve() {
    Control control;
    nlohmann::ordered_json greeting = {{"rank", place_.rank}, {"gloo", gloo_status()}};
    for (const Engine& engine : engines_.all()) greeting["engines"].push_back(engine.name);
    control.answer(greeting);
    for (auto words = control.next(); words.front() != "end"; words = control.next()) {
      const Engine& engine = engines_.named(words.at(1));
      const Span<float> values(engine.memory, std::stoull(words.at(2)) / sizeof(float));
      if (values.size_bytes() > place_.most_bytes) {
        throw ConfigError("a size is larger than was said.", "say the largest size.");
      }
      if (words.front() == "check") {
        control.answer({{"digest", text(check(engine, values))}});
      } else {
        control.answer({{"seconds", time(engine, values, std::stoll(words.at(3)))}});
      }
    }
    engines_.close();
    control.answer(farewell());
  }

 private:
  std::uint64_t check(const Engine& engine, Span<float> values);
  double time(const Engine& engine, Span<float> values, std::int64_t repetitions);

  AllReducePlace place_;
  Engines engines_;
};

std::uint64_t Rank::check(const Engine& engine, Span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = check_value(i, place_.rank);
  engine.run(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double expected = 0;
    for (int rank = 0; rank < place_.ranks; ++rank) expected += check_value(i, rank);
    if (std::fabs(values[i] - expected) <= 1e-6 * place_.ranks) continue;
    throw InternalError(text(engine.name, " all-reduce of ", values.size(), " values: value ", i,
                             " is ", values[i], ", not ", expected, "."),
                        "measure nothing before this is right.");
  }
  const std::uint64_t digest = digest_of(values);
  // Sums of zeros stay zeros, however often they are added up.
  std::fill(values.begin(), values.end(), 0.0F);
  return digest;
}

/// Seconds of one of `repetitions` calls that all ranks begin together. Calls before them bring
/// code, memory and the engine's threads back from the other engine.
double Rank::time(const Engine& engine, Span<float> values, std::int64_t repetitions) {
  engines_.barrier();
  for (std::int64_t i = 0; i < 1 + repetitions / 10; ++i) engine.run(values);
  const auto start = steady_clock().now();
  for (std::int64_t i = 0; i < repetitions; ++i) engine.run(values);
  return Seconds(steady_clock().now() - start).count() / static_cast<double>(repetitions);
}

void run(int argc, const char* const* argv) {
  configure_log(LogLevel::warning, "");
  const std::string argument = argc == 2 ? argv[1] : "";
  if (argument == "--facts") {
    std::cout << machine_facts() << "\n";
  } else if (argument.empty() || argument.front() != '{') {
    throw ConfigError("this program is one rank of a benchmark.", "run bench/all_reduce.py.");
  } else {
    Rank(place_of(argument)).serve();
  }
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] { troupe::bench::run(argc, argv); });
}
