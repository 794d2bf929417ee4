#include "cli/launch.h"

#include "cli/launch_group.h"

namespace troupe {

int launch(const LaunchOptions& options) { return LaunchGroup(options).run(); }

}  // namespace troupe
