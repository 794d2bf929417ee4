#include "troupe/launcher/new_project.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <system_error>

#include "troupe/cli/flags_reading.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/launcher/starters.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewShape = "write `troupe new DIR`, or `troupe new DIR --from mnist`.";
constexpr std::size_t kLongestName = 64;

/// Targets of every CMake build, and those of LibTorch.
constexpr const char* kTakenNames[] = {
    "all",           "clean", "edit_cache", "help",       "install", "test",    "package",
    "rebuild_cache", "torch", "torch_cpu",  "torch_cuda", "c10",     "c10_cuda"};

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Starter& starter : starters()) names.emplace_back(starter.kind);
  return names;
}

const Starter& starter_of(const std::string& kind) {
  for (const Starter& starter : starters())
    if (starter.kind == kind) return starter;
  const std::string near = detail::nearest_name(kind, kinds());
  throw ConfigError(
      text("--from \"", kind, "\" is no kind of program."),
      text(near.empty() ? "" : "did you mean " + near + "? ", "give one of ", join(kinds()), "."));
}

/// The folder's own name, also of ".", ".." and "a/".
std::string name_of_folder(const fs::path& folder) {
  fs::path whole = fs::absolute(folder).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

void check_name(const std::string& name) {
  const auto fits = [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-');
  };
  const bool good = !name.empty() && name.size() <= kLongestName && fits(name[0]) &&
                    std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
                    std::all_of(name.begin(), name.end(), fits);
  if (!good)
    throw ConfigError(
        text("the program would be named \"", name, "\", as its folder is."),
        text("begin with a letter, then letters, digits, _ and -; at most ", kLongestName, "."));
  if (std::find(std::begin(kTakenNames), std::end(kTakenNames), name) != std::end(kTakenNames))
    throw ConfigError(text("\"", name, "\" means something else in a build."),
                      "choose another name.");
}

/// Throws: ConfigError if something is there that would be lost or mixed up.
void check_free(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    throw ConfigError(text("'", folder.string(), "' is there and is no folder."),
                      "name a new folder.");
  if (!fs::is_empty(folder, error) || error)
    throw ConfigError(text("'", folder.string(), "' is not empty."), "name a new folder.");
}

std::string with_name(std::string content, const std::string& name) {
  const std::string former = kStarterName;
  for (std::size_t at = content.find(former); at != std::string::npos;
       at = content.find(former, at + name.size()))
    content.replace(at, former.size(), name);
  return content;
}

void write_file(const fs::path& path, const std::string& content) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file)
    throw EnvironmentError(text("'", path.string(), "' cannot be written."),
                           "name a folder where this user may write and there is room.");
}

/// Whether CMake looks for packages below `prefix` by itself: the system's prefixes, and those of
/// PATH's bin folders.
bool is_searched(const fs::path& prefix, const Environment& environment) {
  if (prefix == "/usr" || prefix == "/usr/local") return true;
  std::error_code error;
  for (const std::string& folder : split(variable_in(environment, "PATH"), ':'))
    if (!folder.empty() && fs::equivalent(folder, prefix / "bin", error)) return true;
  return false;
}

}  // namespace

NewProject parse_new_project(const std::vector<std::string>& arguments) {
  NewProject project;
  std::vector<std::string> folders;
  const detail::FlagTable table({flag("from", &project.kind, "")});
  assign(read_command_line(arguments, table, &folders).given, table);
  if (folders.empty())
    throw ConfigError("`troupe new` was not told which folder to make.", kNewShape);
  if (folders.size() > 1)
    throw ConfigError(
        text("`troupe new` was given ", folders.size(), " folders: ", join(folders), "."),
        kNewShape);
  project.folder = folders[0];
  project.name = name_of_folder(project.folder);
  check_name(project.name);
  static_cast<void>(starter_of(project.kind));
  return project;
}

std::string new_project_help() {
  return R"(Usage: troupe new DIR [--from KIND]

Writes a training program into DIR, a new or empty folder, which names it:
CMakeLists.txt, main.cpp, the hooks, a test that compares one step alone and on
two replicas, config.json, README.md and tasks for Visual Studio Code. Prints
the commands that build and run it.

  --from KIND   what the program is when it is new [template]:
                template    your own: hooks with TODOs, which it lists when run
                mnist       a convolutional network that reads digits
                regression  a wide and deep model on a table
                gan         two networks and two optimisers that draw digits

Examples:
  troupe new my_training
  troupe new digits_reader --from mnist
)";
}

void write_project(const NewProject& project) {
  check_free(project.folder);
  for (const StarterFile& file : starter_of(project.kind).files)
    write_file(project.folder / file.path, with_name(file.content, project.name));
}

std::string package_option(const fs::path& tool, const Environment& environment) {
  const fs::path folder = tool.parent_path();
  std::error_code error;
  if (fs::exists(folder / "troupeConfig.cmake", error))  // a build's own
    return " " + shell_word("-Dtroupe_DIR=" + folder.string());
  const fs::path prefix = folder.parent_path();
  if (is_searched(prefix, environment)) return "";
  return " " + shell_word("-DCMAKE_PREFIX_PATH=" + prefix.string());
}

std::string next_commands(const NewProject& project, const std::string& option) {
  const std::string folder = project.folder.string();
  const std::string from = project.kind == "template" ? "" : text(" from ", project.kind);
  return text("Wrote ", project.name, from, ". Build and run it:\n\n",
              folder == "." ? "" : text("  cd ", shell_word(folder), "\n"), "  cmake -B build",
              option, " && cmake --build build --parallel\n", "  build/", project.name,
              " --config config.json\n",
              project.kind == "template"
                  ? "\nAs it is, it lists the TODOs of my_hooks.h. README.md has the rest.\n"
                  : "\nREADME.md has the rest.\n");
}

}  // namespace troupe
