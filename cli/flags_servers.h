// The built-in flags about parameter servers.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"
#include "options/strategy_options.h"

namespace troupe::detail {

/// Appends the flags, in the order of --help. `addresses` takes --servers as it is given; both must
/// outlive the flags.
void add_server_flags(std::vector<Flag>& flags, std::string& addresses, ServerOptions& servers);

}  // namespace troupe::detail
