#include "troupe/strategies/parameter_server/wire/server_messages.h"

#include <algorithm>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/distributed/membership/json_fields.h"
#include "troupe/distributed/net/frame.h"

namespace troupe {
namespace {

using detail::Json;
using detail::list_in;
using detail::number_of;
using detail::string_in;

// Statistics have bins and lines by event; what a frame cannot carry is cut.
constexpr std::size_t kMaxBins = 4096;
constexpr std::size_t kMaxLines = 256;

std::int64_t clock_of(const Json& value) {
  return static_cast<std::int64_t>(number_of(value, static_cast<std::uint64_t>(kMaxClock)));
}
std::int64_t clock_in(const Json& json, const char* key) { return clock_of(json.at(key)); }

// A list of [key, count], because JSON's keys are text.
Json json_of(const std::map<std::int64_t, std::int64_t>& histogram) {
  Json pairs = Json::array();
  for (const auto& [value, count] : histogram) {
    if (pairs.size() < kMaxBins) pairs.push_back({value, count});
  }
  return pairs;
}
/// By ascending keys. `Number` can hold `largest` of them.
template <class Number>
std::map<Number, std::int64_t> pairs_in(const Json& json, const char* key, std::uint64_t largest) {
  std::map<Number, std::int64_t> pairs;
  for (const Json& pair : list_in(json, key)) {
    const auto first = static_cast<Number>(number_of(pair.at(0), largest));
    const bool ascends = pairs.empty() || pairs.rbegin()->first < first;
    if (!ascends || pair.size() != 2) throw DataError("a list of pairs is in disorder.", "");
    pairs.emplace_hint(pairs.end(), first, clock_of(pair.at(1)));
  }
  return pairs;
}
std::map<std::int64_t, std::int64_t> histogram_in(const Json& json, const char* key) {
  return pairs_in<std::int64_t>(json, key, static_cast<std::uint64_t>(kMaxClock));
}

Json json_of(const std::vector<std::string>& lines) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(lines.size(), kMaxLines));
  return std::vector<std::string>(lines.begin(), lines.begin() + count);
}
std::vector<std::string> lines_in(const Json& json, const char* key) {
  return json.at(key).get<std::vector<std::string>>();
}

}  // namespace

std::string to_json(const Launch& launch) {
  return detail::dump_json(
      {{"step", launch.step}, {"last_step", launch.last_step}, {"data", launch.data}});
}

std::optional<Launch> launch_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    return Launch{clock_in(json, "step"), clock_in(json, "last_step"), string_in(json, "data")};
  });
}

std::string to_json(const StepAnswer& answer) {
  Json json = {{"last_step", answer.last_step}, {"ended", cut_to_fit(answer.ended)}};
  if (answer.step) json["step"] = *answer.step;
  return detail::dump_json(json);
}

std::optional<StepAnswer> step_answer_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    StepAnswer answer;
    if (json.contains("step")) answer.step = clock_in(json, "step");
    answer.last_step = clock_in(json, "last_step");
    answer.ended = string_in(json, "ended");
    return answer;
  });
}

std::string to_json(const TargetClocks& targets) {
  return detail::dump_json({{"clocks", targets}});
}

std::optional<TargetClocks> target_clocks_from(Span<const std::byte> bytes) {
  return detail::parse_json(
      bytes, [](const Json& json) { return pairs_in<int>(json, "clocks", kMaxWorldSize - 1); });
}

std::string finish_to_json(const std::string& reason) {
  return detail::dump_json({{"reason", cut_to_fit(reason)}});
}

std::optional<std::string> finish_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) { return string_in(json, "reason"); });
}

std::string to_json(const PaceStatistics& statistics) {
  return detail::dump_json({{"updates", statistics.updates},
                            {"staleness", json_of(statistics.staleness)},
                            {"missed", json_of(statistics.missed)},
                            {"lost", json_of(statistics.lost)},
                            {"joined_again", json_of(statistics.joined_again)}});
}

std::optional<PaceStatistics> statistics_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    PaceStatistics statistics;
    statistics.updates = clock_in(json, "updates");
    statistics.staleness = histogram_in(json, "staleness");
    statistics.missed = histogram_in(json, "missed");
    statistics.lost = lines_in(json, "lost");
    statistics.joined_again = lines_in(json, "joined_again");
    return statistics;
  });
}

JoinTerms server_terms(JoinTerms terms, const ServerOptions& pace, const ServedModel& model) {
  terms.must_match["staleness bound"] =
      pace.staleness_bound ? text(*pace.staleness_bound) : "(none)";
  terms.must_match["staleness correction"] = pace.correct_staleness ? "yes" : "no";
  std::string placement;
  for (const Shard& shard : model.shards) {
    const ServedTensor& tensor = model.tensor_of(shard);
    placement += text(tensor.name, "\t", tensor.optimizer, "\t", tensor.row_bytes, "\t",
                      shard.server, "\t", shard.first_row, "\t", shard.rows, "\n");
  }
  terms.must_match["placement of the parameters"] = sha256_hex(placement);
  return terms;
}

void check_server_cluster(const Cluster& cluster, const GroupOptions& options) {
  TROUPE_CHECK(!cluster.servers.empty());
  const auto processes = cluster.members.size() + cluster.servers.size();
  if (processes > kMaxWorldSize) {
    throw ConfigError(text("the cluster has ", processes, " workers and parameter servers (limit ",
                           kMaxWorldSize, ")."),
                      "use fewer processes.");
  }
  for (const Member& server : cluster.servers) {
    TROUPE_CHECK(server.address.has_value());
  }
  static_cast<void>(credentials_of(cluster, options));
  warn_of_open_traffic(cluster, options);
}

}  // namespace troupe
