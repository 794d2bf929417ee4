// What two workers compare before they train together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/distributed/membership/failure.h"

namespace troupe {

/// What all workers must agree on before any of them trains.
struct JoinTerms {
  /// One line per parameter and buffer in order: "name dtype [shape] requires_grad". The first line
  /// that differs between two workers is named in the ConfigError on both.
  std::vector<std::string> model_signature;
  /// Settings that must be equal, by the name a user knows: {"--batch-size", "64"}. A difference is
  /// a ConfigError that names the setting and both values.
  std::map<std::string, std::string> must_match;
};

/// SHA-256 over world size, task names and addresses, servers' too: equal when both read the same
/// cluster.
[[nodiscard]] std::string cluster_fingerprint(const Cluster& cluster);

/// SHA-256 over the lines of a model signature.
[[nodiscard]] std::string signature_hash(const std::vector<std::string>& lines);

/// One entry that two workers hold differently; "(absent)" where one has none.
struct TermsDifference {
  std::string name;  // of the setting, or "line 3"
  std::string chief;
  std::string worker;
};

[[nodiscard]] std::optional<TermsDifference> first_difference(
    const std::map<std::string, std::string>& chief,
    const std::map<std::string, std::string>& worker);
[[nodiscard]] std::optional<TermsDifference> first_difference(
    const std::vector<std::string>& chief, const std::vector<std::string>& worker);

/// The failure of `culprit`, who differs in `what` ("the setting --seed"): `there` holds the
/// chief's side of the difference, `here` the worker's.
[[nodiscard]] Failure terms_differ(int culprit, const std::string& what,
                                   const TermsDifference& difference, const std::string& there,
                                   const std::string& here);

/// The lines in one string, and back; the form in which a signature travels.
[[nodiscard]] std::string join_lines(const std::vector<std::string>& lines);
[[nodiscard]] std::vector<std::string> split_lines(const std::string& joined);

}  // namespace troupe
