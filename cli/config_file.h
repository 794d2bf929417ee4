// The file of --config: one flat JSON object, a key per flag ("batch-size" or "batch_size").
#pragma once

#include <string>

#include "cli/flags_table.h"

namespace troupe::detail {

/// What the file at `path` gives. `named_by` is what named the file ("--config").
/// Throws: ConfigError naming the path in the document, for an unknown key (with the nearest known
/// one), a key given twice in any spelling, a value of the wrong type; where the file cannot be
/// read.
[[nodiscard]] GivenTexts read_config_file(const std::string& path, const std::string& named_by,
                                          const FlagTable& table);

}  // namespace troupe::detail
