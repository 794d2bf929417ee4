#include "launcher/launch.h"

#include "launcher/launch_group.h"

namespace troupe {

int launch(const LaunchOptions& options) { return LaunchGroup(options).run(); }

}  // namespace troupe
