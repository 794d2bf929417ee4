#include "strategies/named_sum.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "strategies/shared_failure.h"

namespace troupe::detail {
namespace {

const char* const kFix = "return losses of the same names on every replica in every step.";

std::string names_of(const LossValues& values) {
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// FNV-1a; a whole number that a double holds exactly, and so many workers' sum of it.
double fingerprint(const std::vector<const std::pair<std::string, double>*>& sorted) {
  std::uint32_t hash = 2166136261U;
  for (const auto* value : sorted) {
    for (const char c : value->first + "\n") {
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    }
  }
  return hash;
}

}  // namespace

void sum_by_name(Strategy& strategy, LossValues& named, std::vector<double>& more) {
  std::vector<std::pair<std::string, double>*> sorted;
  for (auto& value : named) sorted.push_back(&value);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  const double mine = fingerprint({sorted.begin(), sorted.end()});
  std::vector<double> values;
  for (const auto* value : sorted) values.push_back(value->second);
  values.insert(values.end(), more.begin(), more.end());
  values.push_back(mine);
  strategy.sum(values);
  if (values.back() != mine * strategy.pace().voices()) {
    fail_alike(strategy, ConfigError("the steps of another worker returned other losses than \"" +
                                         names_of(named) + "\", those of this one.",
                                     kFix));
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i]->second = values[i];
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(sorted.size()), more.size(),
              more.begin());
}

LossValues add_by_name(const std::vector<StepResult>& results) {
  LossValues total;
  for (const auto& [name, loss] : results.front().losses) total.emplace_back(name, 0.0);
  for (std::size_t replica = 0; replica < results.size(); ++replica) {
    bool same = results[replica].losses.size() == total.size();
    for (const auto& [name, loss] : results[replica].losses) {
      const auto known = std::find_if(total.begin(), total.end(),
                                      [&key = name](const auto& sum) { return sum.first == key; });
      same = same && known != total.end();
      if (same) known->second += loss.item<double>();  // the host waits for the device here
    }
    if (same) continue;
    throw ConfigError(text("a step of replica ", replica, " of this worker returned other losses ",
                           "than \"", names_of(total), "\", those of replica 0."),
                      kFix);
  }
  return total;
}

}  // namespace troupe::detail
