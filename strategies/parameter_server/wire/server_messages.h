// Server messages: the JSON between workers and parameter servers. Every from_bytes() treats its
// input as hostile, as in control_messages.h. docs/wire.md has the table. And what both ends must
// agree on beside JoinTerms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/options/strategy_options.h"
#include "troupe/core/span.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/strategies/parameter_server/wire/placement.h"

namespace troupe {

/// No clock, step or number of updates is larger: sums of two stay in range.
inline constexpr std::int64_t kMaxClock = std::int64_t{1} << 60;

/// What training starts from; the chief's store blob came before it.
struct Launch {
  std::int64_t step = 0;
  std::int64_t last_step = 0;
  std::string data{};  // the chief's data_digest, which every worker compares with its own
};
[[nodiscard]] std::string to_json(const Launch& launch);
[[nodiscard]] std::optional<Launch> launch_from(Span<const std::byte> bytes);

/// The answer to a worker that asks for a step. Only server 0 numbers steps and ends training.
struct StepAnswer {
  std::optional<std::int64_t> step;
  std::int64_t last_step = 0;  // updates so far, with `ended`
  std::string ended;           // why there is no step; "" where there is
};
[[nodiscard]] std::string to_json(const StepAnswer& answer);
[[nodiscard]] std::optional<StepAnswer> step_answer_from(Span<const std::byte> bytes);

/// What became of a push in synchronous training: the sequence of the frame that answers it.
enum class PushOutcome : std::uint8_t {
  applied = 1,
  ended = 2,
  without_gradients = 3  // applied, but no worker had a gradient of what this server holds
};

/// The clocks that workers reach with the steps they have been granted, by rank.
using TargetClocks = std::map<int, std::int64_t>;
[[nodiscard]] std::string to_json(const TargetClocks& targets);
[[nodiscard]] std::optional<TargetClocks> target_clocks_from(Span<const std::byte> bytes);

[[nodiscard]] std::string finish_to_json(const std::string& reason);
[[nodiscard]] std::optional<std::string> finish_from(Span<const std::byte> bytes);

/// What the servers counted, for the report at the end.
struct PaceStatistics {
  std::int64_t updates = 0;
  std::map<std::int64_t, std::int64_t> staleness;  // in clocks: how often, over all updates
  std::map<std::int64_t, std::int64_t> missed;     // updates between read and write: how often
  std::vector<std::string> lost;                   // "worker/2 at step 700", in order
  std::vector<std::string> joined_again;

  void count(std::int64_t clocks_behind, std::int64_t updates_between) {
    ++updates, ++staleness[clocks_behind], ++missed[updates_between];
  }
};
[[nodiscard]] std::string to_json(const PaceStatistics& statistics);
[[nodiscard]] std::optional<PaceStatistics> statistics_from(Span<const std::byte> bytes);

/// `terms`, with pace and placement among the settings that must match.
[[nodiscard]] JoinTerms server_terms(JoinTerms terms, const ServerOptions& pace,
                                     const ServedModel& model);

/// Warns where bytes leave the machine unencrypted.
/// Throws: ConfigError for a group without a secret, and for more processes than the protocol has
/// numbers.
void check_server_cluster(const Cluster& cluster, const GroupOptions& options);

}  // namespace troupe
