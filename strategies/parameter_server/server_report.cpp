#include "troupe/strategies/parameter_server/server_report.h"

#include <nlohmann/json.hpp>

#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

using nlohmann::ordered_json;
using Histogram = std::map<std::int64_t, std::int64_t>;

/// "0: 120, 1: 31, 9 to 40: 12": the smallest values one by one, the rest together.
std::string to_line(const Histogram& histogram) {
  constexpr std::size_t kSingle = 9;
  std::vector<std::string> bins;
  auto entry = histogram.begin();
  for (; entry != histogram.end() && bins.size() < kSingle; ++entry) {
    bins.push_back(text(entry->first, ": ", entry->second));
  }
  if (bins.empty()) return "nothing";
  if (entry == histogram.end()) return join(bins);
  const std::int64_t from = entry->first;
  std::int64_t rest = 0;
  for (; entry != histogram.end(); ++entry) rest += entry->second;
  return text(join(bins), ", ", from, " to ", histogram.rbegin()->first, ": ", rest);
}

ordered_json to_json(const Histogram& histogram) {
  ordered_json json = ordered_json::object();
  for (const auto& [value, count] : histogram) json[std::to_string(value)] = count;
  return json;
}

std::int64_t per_step(std::int64_t bytes, std::int64_t steps) {
  return steps == 0 ? 0 : bytes / steps;
}

}  // namespace

void ServerReport::begin_step(const ServerClient& client) {
  if (steps == 0) first = client.traffic().pulled;
}

void ServerReport::add_step(const ServerClient& client) {
  const ServerClient::Traffic traffic = client.traffic();
  ++steps;
  pushed = traffic.pushed;
  pulled = traffic.pulled - first;
}

void ServerReport::log() const {
  log_info("staleness in clocks of all ", counted.updates,
           " updates, as value: count: ", to_line(counted.staleness));
  log_info("updates between a worker's read and its write, as value: count: ",
           to_line(counted.missed));
  if (!counted.lost.empty()) log_warning("workers lost: ", join(counted.lost));
  if (!counted.joined_again.empty()) {
    log_info("workers that joined again: ", join(counted.joined_again));
  }
  log_info("bytes per step of the chief: ", per_step(pushed, steps), " pushed, ",
           per_step(pulled, steps), " pulled, after ", first,
           " at first; all trained parameters are ", dense_step);
}

std::string ServerReport::json() const {
  ordered_json json;
  json["updates"] = counted.updates;
  json["staleness"] = to_json(counted.staleness);
  json["missed"] = to_json(counted.missed);
  json["lost"] = counted.lost;
  json["joined_again"] = counted.joined_again;
  json["chief"] = {{"steps", steps},
                   {"first_bytes", first},
                   {"pushed_bytes_per_step", per_step(pushed, steps)},
                   {"pulled_bytes_per_step", per_step(pulled, steps)},
                   {"dense_bytes_per_step", dense_step}};
  return json.dump();
}

}  // namespace troupe::detail
