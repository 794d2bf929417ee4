#include "bench/all_reduce_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "bench/gloo_group.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "distributed/worker_group.h"

namespace troupe::bench {
namespace {

constexpr std::chrono::milliseconds kLimit{60'000};  // for one call; a healthy one takes 0.1 s
constexpr std::int64_t kMaxRepetitions = 5'000;

struct Engine {
  std::string name;
  std::function<void(Span<float>)> run;
};

/// Rank `rank`'s value at `index` for the check: fractions, so that a lost addend shows.
float check_value(std::size_t index, int rank) {
  return static_cast<float>((index * 31 + static_cast<std::size_t>(rank) * 17) % 1009) / 1013.0F;
}

class Measurement {
 public:
  explicit Measurement(const RankPlace& place, std::size_t most_bytes)
      : group_(cluster_of(place), {}), buffer_(most_bytes / sizeof(float)), copy_(buffer_) {
    group_.join({});
    gloo_ = GlooGroup::make(place.rank, place.count, place.store_file, kLimit);
    engines_.push_back(
        {"troupe", [this](Span<float> values) { group_.all_reduce(values, deadline()); }});
    if (gloo_) {
      engines_.push_back({"gloo", [this](Span<float> values) { gloo_->all_reduce(values); }});
    }
  }

  nlohmann::ordered_json measure(std::size_t bytes, const AllReducePlan& plan);
  void close() {
    gloo_.reset();
    group_.close();
  }

 private:
  static Deadline deadline() { return Deadline::in(kLimit); }
  void check_sums(const Engine& engine, Span<float> values);
  /// Seconds per call of `repetitions` calls that all ranks begin together.
  double time(const Engine& engine, Span<float> values, std::int64_t repetitions);
  /// How many calls fill a block: rank 0 decides for all.
  std::int64_t calibrate(const Engine& engine, Span<float> values, std::chrono::microseconds block);
  /// By rank and position, the largest of all ranks.
  std::vector<double> slowest(const std::vector<double>& mine);

  WorkerGroup group_;
  std::unique_ptr<GlooGroup> gloo_;
  std::vector<float> buffer_;
  std::vector<float> copy_;
  std::vector<Engine> engines_;
};

void Measurement::check_sums(const Engine& engine, Span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = check_value(i, group_.rank());
  engine.run(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double expected = 0;
    for (int rank = 0; rank < group_.world_size(); ++rank) expected += check_value(i, rank);
    if (std::fabs(values[i] - expected) <= 1e-6 * group_.world_size()) continue;
    throw InternalError(text(engine.name, " all-reduce of ", values.size(), " values: value ", i,
                             " is ", values[i], ", not ", expected, "."),
                        "measure nothing before this is right.");
  }
}

double Measurement::time(const Engine& engine, Span<float> values, std::int64_t repetitions) {
  const SteadyClock clock;
  group_.barrier(deadline());
  engine.run(values);  // brings code, memory and the engine's threads back from the other engine
  const auto start = clock.now();
  for (std::int64_t i = 0; i < repetitions; ++i) engine.run(values);
  return Seconds(clock.now() - start).count() / static_cast<double>(repetitions);
}

std::int64_t Measurement::calibrate(const Engine& engine, Span<float> values,
                                    std::chrono::microseconds block) {
  const std::int64_t trial = values.size_bytes() < 65'536 ? 50 : 2;
  const double seconds = time(engine, values, trial);
  std::vector<double> repetitions = {std::clamp(std::floor(Seconds(block).count() / seconds), 1.0,
                                                static_cast<double>(kMaxRepetitions))};
  group_.broadcast(as_writable_bytes(Span<double>(repetitions)), /*root=*/0, deadline());
  return static_cast<std::int64_t>(repetitions.front());
}

std::vector<double> Measurement::slowest(const std::vector<double>& mine) {
  std::vector<double> result = mine;
  for (const auto& bytes : group_.all_gather(as_bytes(Span<const double>(mine)), deadline())) {
    std::vector<double> theirs(mine.size());
    std::memcpy(theirs.data(), bytes.data(), std::min(bytes.size(), mine.size() * sizeof(double)));
    for (std::size_t i = 0; i < mine.size(); ++i) result[i] = std::max(result[i], theirs[i]);
  }
  return result;
}

nlohmann::ordered_json Measurement::measure(std::size_t bytes, const AllReducePlan& plan) {
  const Span<float> values(buffer_.data(), bytes / sizeof(float));
  for (const Engine& engine : engines_) check_sums(engine, values);
  // Sums of zeros stay zeros, however often they are added up.
  std::fill(values.begin(), values.end(), 0.0F);

  std::vector<Engine> engines = engines_;
  engines.push_back({"memcpy", [this](Span<float> from) {
                       std::memcpy(copy_.data(), from.data(), from.size_bytes());
                       // The compiler may not drop a copy whose result somebody could look at.
                       asm volatile("" : : "r"(copy_.data()) : "memory");
                     }});
  std::vector<std::int64_t> repetitions;
  for (const Engine& engine : engines) {
    repetitions.push_back(calibrate(engine, values, plan.block));
  }
  std::vector<std::vector<double>> seconds(engines.size());
  for (int round = 0; round < plan.rounds; ++round) {
    for (std::size_t i = 0; i < engines.size(); ++i) {
      seconds[i].push_back(time(engines[i], values, repetitions[i]));
    }
  }
  nlohmann::ordered_json result = {{"bytes", bytes}};
  for (std::size_t i = 0; i < engines.size(); ++i) {
    result[engines[i].name] = {{"repetitions", repetitions[i]}, {"seconds", slowest(seconds[i])}};
  }
  return result;
}

}  // namespace

nlohmann::ordered_json measure_all_reduce(const RankPlace& place, const AllReducePlan& plan) {
  Measurement measurement(place, *std::max_element(plan.sizes.begin(), plan.sizes.end()));
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const std::size_t bytes : plan.sizes) results.push_back(measurement.measure(bytes, plan));
  measurement.close();
  return results;
}

}  // namespace troupe::bench
