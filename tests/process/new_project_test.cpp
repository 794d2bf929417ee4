// `troupe new` through the real command line, and what it says about where the package is. That
// what it writes builds and trains is tests/consumer's subject.
#include "troupe/launcher/new_project.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/launcher/starters.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject
namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

ProcessResult run_new(const std::vector<std::string>& arguments, const fs::path& directory) {
  std::vector<std::string> command = {kTool, "new"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ProcessOptions options;
  options.directory = directory.string();
  return run_process(command, options);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), to);
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("troupe new: writes the template as the tree has it, under the folder's name") {
    const TempDir folder;
    const ProcessResult result = run_new({"deep/er/first-one"}, folder.path());
    REQUIRE(result.exit_code == 0);
    CHECK(has(result.out, "  cd deep/er/first-one\n"));
    CHECK(has(result.out, "  build/first-one --config config.json\n"));
    const fs::path source = TROUPE_SOURCE_DIR "/template";
    const fs::path made = fs::path(folder.path()) / "deep/er/first-one";
    CHECK(files_below(made).size() == files_below(source).size());
    for (const fs::path& file : files_below(source)) {
      std::string expected = content_of(file);
      const std::string name = fs::relative(file, source).string();
      replace_all(expected, "// template/" + name, "// " + name);
      replace_all(expected, "my_training", "first-one");
      INFO(name);
      CHECK(content_of(made / name) == expected);
    }
  }

  TEST_CASE("troupe new --from: an example in a folder of its own") {
    const TempDir folder;
    for (const troupe::Starter& starter : troupe::starters()) {
      const std::string name = std::string("my_") + starter.kind;
      REQUIRE(run_new({"--from", starter.kind, name}, folder.path()).exit_code == 0);
      const fs::path made = fs::path(folder.path()) / name;
      for (const char* file : {"CMakeLists.txt", "README.md", "main.cpp", "hooks_test.cpp",
                               "config.json", ".gitignore", ".vscode/tasks.json"})
        CHECK(fs::exists(made / file));
      for (const fs::path& file : files_below(made)) {
        INFO(file.string());
        CHECK(!has(content_of(file), "my_training"));
        CHECK(!has(content_of(file), "examples/"));
      }
    }
  }

  TEST_CASE("troupe new: a folder that is there is taken if it is empty, also the present one") {
    const TempDir folder;
    const fs::path here = fs::path(folder.path()) / "with blank" / "present";
    fs::create_directories(here);
    const ProcessResult result = run_new({"."}, here);
    REQUIRE(result.exit_code == 0);
    CHECK(!has(result.out, "  cd "));
    CHECK(has(content_of(here / "CMakeLists.txt"), "project(present "));
    CHECK(has(run_new({"with blank/other"}, folder.path()).out, "  cd 'with blank/other'\n"));
    const ProcessResult again = run_new({"."}, here);
    CHECK(again.exit_code == 2);
    CHECK(again.err == "troupe: error[config]: '.' is not empty. Fix: name a new folder.\n");
  }

  TEST_CASE("troupe new: refuses what cannot be a program, and writes nothing") {
    const TempDir folder;
    std::ofstream(fs::path(folder.path()) / "file") << "mine";
    const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
        {{}, "was not told which folder to make"},
        {{"a", "b"}, "was given 2 folders: a, b."},
        {{"file"}, "'file' is there and is no folder"},
        {{"test"}, "\"test\" means something else in a build"},
        {{"torch"}, "\"torch\" means something else in a build"},
        {{"two words"}, "would be named \"two words\""},
        {{"1st"}, "would be named \"1st\""},
        {{"a$b"}, "begin with a letter"},
        {{"\xc3\xa4pfel"}, "begin with a letter"},
        {{"a.b"}, "begin with a letter"},
        {{"/"}, "begin with a letter"},
        {{std::string(65, 'a')}, "at most 64"},
        {{"x", "--from", "mnits"}, "did you mean mnist?"},
        {{"x", "--from", "%"}, "give one of template, mnist, regression, gan."},
        {{"x", "--form", "mnist"}, "did you mean --from?"},
        {{"x", "--from"}, "--from needs a value"}};
    for (const auto& [arguments, expected] : refused) {
      const ProcessResult result = run_new(arguments, folder.path());
      INFO(result.err);
      CHECK(result.exit_code == 2);
      CHECK(has(result.err, expected));
      CHECK(count_of(result.err, "\n") == 1);
    }
    CHECK(files_below(folder.path()).size() == 1);
    CHECK(content_of(fs::path(folder.path()) / "file") == "mine");
    const ProcessResult result = run_new({"/proc/no/such"}, folder.path());
    CHECK(result.exit_code == 3);
    CHECK(has(result.err, "cannot be written"));
  }

  TEST_CASE("troupe new: says where the package is only where CMake does not look") {
    const TempDir folder;
    const fs::path prefix = fs::path(folder.path()) / "prefix";
    fs::create_directories(prefix / "bin");
    const fs::path tool = prefix / "bin/troupe";
    CHECK(troupe::package_option("/usr/bin/troupe", {}).empty());
    CHECK(troupe::package_option("/usr/local/bin/troupe", {}).empty());
    CHECK(troupe::package_option(tool, {{"PATH", "/bin::" + (prefix / "bin").string() + "/"}})
              .empty());
    const std::string option = " -DCMAKE_PREFIX_PATH=" + prefix.string();
    CHECK(troupe::package_option(tool, {{"PATH", "/bin:/usr/bin:/nowhere"}}) == option);
    CHECK(troupe::package_option(tool, {}) == option);
    std::ofstream(prefix / "bin/troupeConfig.cmake") << "";  // a build folder
    CHECK(troupe::package_option(tool, {}) == " -Dtroupe_DIR=" + (prefix / "bin").string());
  }
}
