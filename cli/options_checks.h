// What settings need from each other: the checks of a complete set of options, and the settings
// that all processes of a job must have alike.
#pragma once

#include <map>
#include <string>

#include "troupe/cli/flag_lookup.h"
#include "troupe/cli/options.h"

namespace troupe::detail {

/// Throws: ConfigError if `program` does not carry out `mode`.
void check_carried_out(Mode mode, const ProgramInfo& program);

/// `options` with their cluster resolved, from what was `given`. Throws: ConfigError naming the
/// settings that contradict each other, or the one that is missing.
void check_options(const Options& options, const GivenTexts& given);

/// What every worker and parameter server must be told alike, since it shapes the training itself.
[[nodiscard]] std::map<std::string, std::string> common_settings(const FlagTable& table,
                                                                 const StrategyOptions& strategy);

}  // namespace troupe::detail
