// RunOrigin: how a run was started.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// What a run's journal says of its process besides what training knows itself. parse_options fills
/// it in.
struct RunOrigin {
  /// As --print-config shows it.
  struct Setting {
    std::string name;
    std::string value;
    std::string source;  // "--batch-size", "TROUPE_BATCH_SIZE", "default"
  };
  std::string program;  // "mnist"
  std::string mode;     // as --mode spells it
  std::vector<Setting> settings;
};

}  // namespace troupe
