#include "troupe/cli/flag_lookup.h"

#include <algorithm>
#include <set>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr std::size_t kLongestName = 64;  // a longer one is no typing error, and costs its square

/// Flags that there were, and what does their work.
constexpr std::pair<const char*, const char*> kRemoved[] = {
    {"backup-workers",
     "synchronous training waits for every worker; --staleness-bound S lets workers be S steps "
     "apart"},
    {"lr", "give --learning-rate"},
    {"role", "give --task"},
    {"best-metric", "give --best METRIC"},
    {"best-mode", "give --best METRIC:min or METRIC:max"},
    {"plateau-metric", "give --plateau METRIC:N"},
    {"plateau-patience", "give --plateau METRIC:N"},
    {"stop-if-no-decrease", "give --early-stopping METRIC:min:STEPS"},
    {"stop-if-no-increase", "give --early-stopping METRIC:max:STEPS"},
    {"stop-if-lower", "give --early-stopping METRIC:min=VALUE"},
    {"stop-if-higher", "give --early-stopping METRIC:max=VALUE"},
    {"save-checkpoints-steps", "give --save-every N"},
    {"save-checkpoints-secs", "give --save-every SECONDSs, or 10m or 2h"},
    {"device", "give --devices DEVICE"},
    {"replicas", "name the device of each, --devices cpu:0-3 or cuda:0,cuda:1"},
    {"steps", "give --max-steps, the last step of the whole training"},
    {"status-port", "give --status PORT"},
    {"status-address", "give --status HOST:PORT"},
    {"master-addr", "give --chief-address HOST:PORT"},
    {"master-port", "give --chief-address HOST:PORT"},
    {"require-checkpoint", "evaluate and predict always need a checkpoint"},
    {"predict-batches", "predictions are a line for each example"},
    {"tf-random-seed", "give --seed"},
    {"job-dir", "give --model-dir"},
    {"output-dir", "give --model-dir"},
    {"log-step-count-steps", "give --log-every"},
    {"session-creation-timeout-secs", "give --start-timeout"},
    {"heartbeat-interval", "it follows from --heartbeat-timeout"},
    {"eval-batch-size", "a program sets EvalOptions::batch_size"},
    {"exports-to-keep", "a program sets EvalOptions::exports_to_keep"},
    {"min-steps", "a program sets TrainOptions::min_steps"},
    {"read-ahead", "a program sets LoaderOptions::prefetch_steps"},
    {"fused-optimizer", "a program sets BucketOptions::fused_step"},
    {"prefetch", "leave it out: values are fetched for the step that uses them"},
    {"staleness-correction", "a program sets ServerOptions::correct_staleness"},
    {"min-shard-bytes", "a program sets ServerOptions::min_shard_bytes"},
};

bool well_formed(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  return plain && name.size() > 1 && name.front() >= 'a' && name.back() != '-';
}

}  // namespace

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string shown_name(const Flag& flag) {
  const bool on = flag.kind == FlagKind::toggle && flag.show() == "true";
  return on ? "no-" + flag.name : flag.name;
}

FlagTable::FlagTable(std::vector<Flag> flags) : flags_(std::move(flags)) {
  std::set<std::string> seen;
  for (const Flag& flag : flags_) {
    std::vector<std::string> names = {flag.name};
    if (flag.kind == FlagKind::toggle) names.push_back("no-" + flag.name);
    for (const std::string& name : names) {
      if (!well_formed(name)) {
        throw ConfigError(text("the program defines a flag named \"", name, "\"."),
                          "use lower case letters, digits and inner dashes, two at least.");
      }
      if (!seen.insert(name).second) {
        throw ConfigError(text("the program defines the flag --", name, " twice."),
                          "give its own flag another name.");
      }
    }
  }
}

std::optional<FlagMatch> FlagTable::find(const std::string& spelling) const {
  const std::string name = with_dashes(spelling);
  for (const Flag& flag : flags_) {
    if (flag.name == name) return FlagMatch{&flag, false};
    if (flag.kind == FlagKind::toggle && name == "no-" + flag.name) return FlagMatch{&flag, true};
  }
  return std::nullopt;
}

std::string FlagTable::suggestion(const std::string& spelling) const {
  const std::string name = with_dashes(spelling);
  for (const auto& [former, instead] : kRemoved) {
    if (name == former) return text("it was removed: ", instead, "; ");
  }
  std::vector<std::string> told;  // to users
  for (const Flag& flag : flags_) {
    if (flag.shown != FlagShown::never) told.push_back(shown_name(flag));
  }
  const std::string nearest = nearest_name(name, told);
  return nearest.empty() ? "" : text("did you mean --", nearest, "? ");
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
  if (name.size() > kLongestName) return "";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t shorter = std::min(name.size(), candidate.size());
    // No distance is less than the lengths' difference.
    if (std::max(name.size(), candidate.size()) - shorter >= best_distance) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace troupe::detail
