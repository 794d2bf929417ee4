// Help: what --help, --help-all, --version and --print-config print. At most 80 columns.
#pragma once

#include <string>
#include <vector>

#include "troupe/cli/flag_lookup.h"
#include "troupe/cli/options.h"
#include "troupe/core/options/run_origin.h"
#include "troupe/core/options/train_options.h"

namespace troupe::detail {

/// Usage, purpose, the flags by group with their defaults in brackets, examples. `rarest`: of those
/// that are shown.
[[nodiscard]] std::string help_text(const FlagTable& table, const ProgramInfo& program,
                                    FlagShown rarest);

/// The flags alone.
[[nodiscard]] std::string flags_text(const FlagTable& table, FlagShown rarest);

/// Troupe's version, the LibTorch it was compiled against, and this machine.
[[nodiscard]] std::string version_text();

/// Every flag that sets something. A flag that is missing in `lines` has its present value and the
/// origin "default". "-" stands for an empty value.
[[nodiscard]] std::vector<RunOrigin::Setting> config_settings(const FlagTable& table,
                                                              const GivenTexts& lines);

/// One line per setting: name, value, origin.
[[nodiscard]] std::string print_config_text(const std::vector<RunOrigin::Setting>& settings);

}  // namespace troupe::detail
