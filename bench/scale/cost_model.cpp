#include "bench/scale/cost_model.h"

#include <cmath>
#include <string>

#include "core/check.h"
#include "distributed/membership/control_messages.h"
#include "net/frame.h"
#include "net/link_listener.h"

namespace troupe::bench {
namespace {

int ceil_log2(int ranks) {
  int rounds = 0;
  while ((1 << rounds) < ranks) ++rounds;
  return rounds;
}

const LinkAddress kAddress{"10.77.0.100", 40'000, std::string(kLinkNameBytes, '0')};

/// What the chief sends to each of `ranks`, as large as it is with addresses of average length.
std::size_t welcome_bytes(int ranks) {
  Welcome welcome;
  welcome.endpoints.assign(static_cast<std::size_t>(ranks), kAddress);
  return kFrameHeaderBytes + to_json(welcome).size();
}

std::size_t hello_bytes() {
  Hello hello;
  hello.task = "worker/100";
  hello.fingerprint = std::string(64, '0');
  hello.signature_hash = hello.fingerprint;
  hello.listens = kAddress;
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

Cost direct_cost(int ranks, std::size_t bytes) {
  const double messages = 2.0 * (ranks - 1);
  return {2, messages / ranks * static_cast<double>(bytes), messages};
}

Cost two_level_cost(int ranks, int group_size, std::size_t bytes) {
  const int groups = (ranks + group_size - 1) / group_size;
  const double all = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes);
  return {4, all, 2.0 * (group_size - 1 + groups - 1)};
}

Cost doubling_cost(int ranks, std::size_t bytes) {
  const double rounds = ceil_log2(ranks);
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
