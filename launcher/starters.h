// Starters: the folders that `troupe new` can write, as the tree had them when the tool was built;
// cmake/starters.cmake lists their files.
#pragma once

#include <vector>

namespace troupe {

/// The program's name, in every file of a starter.
inline constexpr const char* kStarterName = "my_training";

struct StarterFile {
  const char* path;  // in the new folder
  const char* content;
};

struct Starter {
  const char* kind;
  std::vector<StarterFile> files;
};

[[nodiscard]] const std::vector<Starter>& starters();

}  // namespace troupe
