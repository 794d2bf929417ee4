#include "troupe/report/progress.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "troupe/core/span.h"
#include "troupe/core/strict_json.h"

namespace troupe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const auto& kActivities = Progress::kActivities;

ordered_json json_of(const NamedValues& values) {
  ordered_json pairs = ordered_json::array();
  for (const auto& [name, value] : values) pairs.push_back({name, value});
  return pairs;
}

/// A JSON number may be anything: 1e300 is no step, and its conversion undefined.
std::int64_t count_from(const json& value,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    throw JsonFault{};
  }
  return value.get<std::int64_t>();
}

/// JSON has no NaN: null.
double number_from(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

NamedValues values_from(const json& pairs) {
  NamedValues values;
  for (const json& pair : pairs) {
    if (pair.size() != 2) throw JsonFault{};
    values.emplace_back(pair.at(0).get<std::string>(), number_from(pair.at(1)));
  }
  return values;
}

}  // namespace

std::string to_line(const Progress& progress) {
  ordered_json line = {{"rank", progress.rank},
                       {"activity", kActivities[static_cast<int>(progress.activity)]},
                       {"step", progress.step},
                       {"first_step", progress.first_step},
                       {"total_steps", progress.total_steps},
                       {"epoch", progress.epoch},
                       {"unit", progress.unit},
                       {"steps_per_second", progress.steps_per_second},
                       {"examples_per_second", progress.examples_per_second},
                       {"examples", progress.examples},
                       {"losses", json_of(progress.losses)},
                       {"validation", json_of(progress.validation)},
                       {"validation_step", progress.validation_step},
                       {"waiting", json_of(progress.waiting)}};
  if (progress.learning_rate) line["learning_rate"] = *progress.learning_rate;
  // Many losses or metrics: the numbers that everybody needs are worth more than all of them.
  for (const char* optional : {"waiting", "validation", "losses"}) {
    if (json_line(line).size() < kMostProgressBytes) break;
    line[optional] = json::array();
  }
  return json_line(line);
}

std::optional<Progress> progress_from_line(std::string_view line) {
  if (line.size() > kMostProgressBytes) return std::nullopt;
  try {
    const json read =
        parse_bounded_json({reinterpret_cast<const std::byte*>(line.data()), line.size()}, 4);
    Progress progress;
    progress.rank = static_cast<int>(count_from(read.at("rank"), kMostRanks));
    const auto activity = read.at("activity").get<std::string>();
    const auto* const known = std::find(std::begin(kActivities), std::end(kActivities), activity);
    if (known == std::end(kActivities)) throw JsonFault{};
    progress.activity = static_cast<Progress::Activity>(known - std::begin(kActivities));
    progress.step = count_from(read.at("step"));
    progress.first_step = count_from(read.at("first_step"));
    progress.total_steps = count_from(read.at("total_steps"));
    progress.epoch = count_from(read.at("epoch"));
    progress.unit = read.at("unit").get<std::string>();
    progress.steps_per_second = number_from(read.at("steps_per_second"));
    progress.examples_per_second = number_from(read.at("examples_per_second"));
    progress.examples = count_from(read.at("examples"));
    progress.losses = values_from(read.at("losses"));
    progress.validation = values_from(read.at("validation"));
    progress.validation_step = count_from(read.at("validation_step"));
    progress.waiting = values_from(read.at("waiting"));
    if (read.contains("learning_rate")) progress.learning_rate = number_from(read["learning_rate"]);
    return progress;
  } catch (const JsonFault&) {  // also for what to_line() does not write
    return std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace troupe
