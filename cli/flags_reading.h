// Reading: collects what was given for each flag on the command line, in the environment and in the
// file of --config. Values stay text here; assign() reads them.
#pragma once

#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/flag_lookup.h"

namespace troupe::detail {

struct CommandLine {
  GivenTexts given;
  std::vector<std::string> extra;  // what follows `--`
};

/// `words` takes what is no flag; null: nothing may be there. Throws: ConfigError for an unknown
/// flag (with the nearest known one), a missing value, an argument of one dash.
[[nodiscard]] CommandLine read_command_line(const std::vector<std::string>& arguments,
                                            const FlagTable& table,
                                            std::vector<std::string>* words = nullptr);

/// The TROUPE_* variables that name a flag. Appends to `warnings` those that nearly do.
/// Throws: ConfigError for a variable that is set but empty, and for a value given twice.
[[nodiscard]] GivenTexts read_environment(const Environment& environment, const FlagTable& table,
                                          std::vector<std::string>& warnings);

/// Stores the values through their flags. Throws: ConfigError naming origin, value and fix.
void assign(const GivenTexts& given, const FlagTable& table);

/// What the file of --config gives: one flat JSON object, a key per flag ("batch-size" or
/// "batch_size"). `named_by` is what named the file ("--config").
/// Throws: ConfigError naming the path in the document, for an unknown key (with the nearest known
/// one), a key given twice in any spelling, a value of the wrong type; where the file cannot be
/// read.
[[nodiscard]] GivenTexts read_config_file(const std::string& path, const std::string& named_by,
                                          const FlagTable& table);

}  // namespace troupe::detail
