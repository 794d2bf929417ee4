// FlagTable: all flags of a program, looked up by any spelling that a user may write.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/flags.h"

namespace troupe::detail {

/// The flag a spelling means. `negated`: it was written --no-<name>.
struct FlagMatch {
  const Flag* flag = nullptr;
  bool negated = false;
};

class FlagTable {
 public:
  /// Throws: ConfigError where two flags share a spelling or a name is malformed.
  explicit FlagTable(std::vector<Flag> flags);

  [[nodiscard]] const std::vector<Flag>& flags() const { return flags_; }
  /// By name or --no- form of a toggle; underscores count as dashes. Unset: unknown.
  [[nodiscard]] std::optional<FlagMatch> find(const std::string& spelling) const;
  /// "did you mean --batch-size? ", why a flag was removed, or "" where nothing is near.
  [[nodiscard]] std::string suggestion(const std::string& spelling) const;

 private:
  std::vector<Flag> flags_;
};

/// How help writes a flag: "epochs", and "no-progress" for a toggle that is on by default.
[[nodiscard]] std::string shown_name(const Flag& flag);

/// "batch_size" to "batch-size".
[[nodiscard]] std::string with_dashes(std::string name);

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment).
[[nodiscard]] std::size_t edit_distance(const std::string& a, const std::string& b);

/// What a mistyped name most likely means: the nearest of `known`, or "" where none is near: more
/// than a third of the letters differ.
[[nodiscard]] std::string nearest_name(const std::string& name,
                                       const std::vector<std::string>& known);

}  // namespace troupe::detail
