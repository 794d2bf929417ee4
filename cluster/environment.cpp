#include "cluster/environment.h"

#include <unistd.h>

namespace troupe {

Environment process_environment() {
  Environment variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const auto equals = line.find('=');
    if (equals != std::string::npos)
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

}  // namespace troupe
