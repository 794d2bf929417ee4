// `troupe new`: writes the folder of a training program, which builds outside Troupe's tree.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"

namespace troupe {

struct NewProject {
  std::filesystem::path folder;  // as it was given
  std::string name;              // the program's: the folder's
  std::string kind = "template";
};

/// The command line of `troupe new`; `arguments`: what follows the word "new".
/// Throws: ConfigError for a name that no program of a CMake build can have, or an unknown kind.
[[nodiscard]] NewProject parse_new_project(const std::vector<std::string>& arguments);

/// What `troupe help new` prints.
[[nodiscard]] std::string new_project_help();

/// Makes the folder and its files. Throws: ConfigError if it exists and is not empty,
/// EnvironmentError if it cannot be written.
void write_project(const NewProject& project);

/// What to say to CMake so that it finds the package that came with the tool at `tool`: a blank and
/// an option, or "" where it finds that package by itself. `environment`: this process's.
[[nodiscard]] std::string package_option(const std::filesystem::path& tool,
                                         const Environment& environment);

/// What to do next: the commands that build and run the project.
[[nodiscard]] std::string next_commands(const NewProject& project, const std::string& option);

}  // namespace troupe
