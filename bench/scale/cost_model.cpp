#include "bench/scale/cost_model.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/check.h"
#include "distributed/control_messages.h"
#include "net/frame.h"

namespace troupe::bench {
namespace {

int ceil_log2(int ranks) {
  int rounds = 0;
  while ((1 << rounds) < ranks) ++rounds;
  return rounds;
}

bool is_power_of_two(int ranks) { return (ranks & (ranks - 1)) == 0; }

/// What the chief sends to each of `ranks`, as large as it is with addresses of average length.
std::size_t welcome_bytes(int ranks) {
  Welcome welcome;
  welcome.endpoints.assign(static_cast<std::size_t>(ranks), Endpoint{"10.77.0.100", 40'000});
  return kFrameHeaderBytes + to_json(welcome).size();
}

std::size_t hello_bytes() {
  Hello hello;
  hello.task = "worker/100";
  hello.fingerprint = std::string(64, '0');
  hello.signature_hash = hello.fingerprint;
  hello.listens = {"10.77.0.100", 40'000};
  return kFrameHeaderBytes + to_json(hello).size();
}

}  // namespace

double seconds_of(const Cost& cost, const Parameters& parameters) {
  const double moving = parameters.beta > 0 ? cost.bytes / parameters.beta : 0;
  return cost.alphas * parameters.alpha + moving + cost.messages * parameters.o;
}

Cost ring_cost(int ranks, std::size_t bytes) {
  const double steps = 2.0 * (ranks - 1);
  return {steps, steps / ranks * static_cast<double>(bytes), steps};
}

double pipelined_ring_seconds(int ranks, std::size_t bytes, const Parameters& parameters) {
  const double chunk = seconds_of({0, static_cast<double>(bytes) / ranks, 0}, parameters);
  return 2.0 * (ranks - 1) * std::max(parameters.alpha, chunk) + std::min(parameters.alpha, chunk);
}

Cost direct_cost(int ranks, std::size_t bytes) {
  const double messages = 2.0 * (ranks - 1);
  return {2, messages / ranks * static_cast<double>(bytes), messages};
}

Cost doubling_cost(int ranks, std::size_t bytes) {
  int whole = ranks;
  while (!is_power_of_two(whole)) --whole;
  const double rounds = ceil_log2(whole) + (whole == ranks ? 0 : 2);
  return {rounds, rounds * static_cast<double>(bytes), rounds};
}

Cost barrier_cost(int ranks) {
  const double rounds = ceil_log2(ranks);
  return {rounds, rounds * kFrameHeaderBytes, rounds};
}

Cost rendezvous_cost(int ranks) {
  constexpr double kOneWays = 10;
  const double each = static_cast<double>(welcome_bytes(ranks) + hello_bytes()) +
                      2.0 * kFrameHeaderBytes;  // ready and start
  return {kOneWays, (ranks - 1) * each, 4.0 * (ranks - 1)};
}

Parameters fit(const std::vector<Observation>& seen) {
  // Normal equations of (alphas/t) alpha + (bytes/t) / beta = 1, with bytes in units of a megabyte.
  constexpr double kUnit = 1e6;
  double aa = 0;
  double ab = 0;
  double bb = 0;
  double a1 = 0;
  double b1 = 0;
  for (const Observation& one : seen) {
    const double a = one.cost.alphas / one.seconds;
    const double b = one.cost.bytes / kUnit / one.seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  TROUPE_CHECK(std::fabs(determinant) > 0);
  const double per_unit = (aa * b1 - ab * a1) / determinant;
  return {(bb * a1 - ab * b1) / determinant, per_unit > 0 ? kUnit / per_unit : 0, 0};
}

}  // namespace troupe::bench
