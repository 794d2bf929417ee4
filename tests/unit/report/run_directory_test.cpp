#include "troupe/report/page/run_directory.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"

namespace run_directory_test {

using namespace troupe::testing;  // NOLINT: a test
using troupe::RunDirectory;
using troupe::RunLine;

namespace {

namespace fs = std::filesystem;

void append(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::app) << content;
}

/// "train 1, eval 2": the sources and steps.
std::string shown(const std::vector<RunLine>& lines) {
  std::string text;
  for (const RunLine& line : lines) {
    text += (text.empty() ? "" : ", ") + line.source;
    if (line.line.contains("step")) text += " " + line.line["step"].dump();
  }
  return text;
}

std::string nested(int levels) {
  return "{\"step\":1,\"a\":" + std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']') + "}\n";
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("run_directory: lines of the journal, of summaries and evaluations, and exports") {
    const TempDir folder;
    for (const char* name : {"eval", "eval_more", "evaluations", "export/best/1700000000",
                             "export/best/temp-1", "export/best/17"}) {
      fs::create_directories(folder.path() / name);
    }
    append(folder.path() / "run.jsonl", "{\"event\":\"start\",\"step\":0}\n");
    append(folder.path() / "summaries.jsonl", "{\"step\":1,\"loss\":0.5}\n{\"step\":2}\n");
    append(folder.path() / "histograms.jsonl", "{\"step\":1}\n");
    append(folder.path() / "eval/summaries.jsonl", "{\"step\":3}\n");
    append(folder.path() / "eval_more/summaries.jsonl", "{\"step\":4}\n");
    append(folder.path() / "evaluations/summaries.jsonl", "{\"step\":5}\n");
    RunDirectory run(folder.path());
    const auto lines = run.read_on();
    CHECK(shown(lines) == "run 0, train 1, train 2, eval 3, eval_more 4, export/best");
    CHECK(lines[1].line.dump() == "{\"step\":1,\"loss\":0.5}");
    CHECK(lines.back().line.dump() == "{\"time\":1700000000}");
    CHECK(run.read_on().empty());
  }

  TEST_CASE("run_directory: reads on, whole lines only") {
    const TempDir folder;
    const fs::path file = folder.path() / "summaries.jsonl";
    append(file, "{\"step\":1}\n{\"step\":");
    RunDirectory run(folder.path());
    CHECK(shown(run.read_on()) == "train 1");
    CHECK(run.read_on().empty());
    append(file, "2}");
    CHECK(run.read_on().empty());
    append(file, "\n{\"step\":3}\n");
    CHECK(shown(run.read_on()) == "train 2, train 3");
    fs::create_directories(folder.path() / "eval");
    append(folder.path() / "eval/summaries.jsonl", "{\"step\":3}\n");
    fs::create_directories(folder.path() / "export/latest/1700000001");
    CHECK(shown(run.read_on()) == "eval 3, export/latest");
    replace(file, "{\"step\":7}\n");  // a shorter file has taken its place
    CHECK(shown(run.read_on()) == "train 7");
  }

  TEST_CASE("run_directory: damaged, deep and foreign lines are left out") {
    const TempDir folder;
    append(
        folder.path() / "summaries.jsonl",
        "{\"step\":1}\n\n[1]\n7\nnull\n{\"step\":\n{\"step\":1e999}\n\xff\xfe\n{\"a\":\"\xff\"}\n" +
            nested(RunDirectory::kMostLevels - 1) + nested(RunDirectory::kMostLevels) +
            nested(400'000) + std::string("\0\0\0\n", 4) + "{\"step\":2}\n");
    CHECK(shown(RunDirectory(folder.path()).read_on()) == "train 1, train 1, train 2");
  }

  TEST_CASE("run_directory: a line that is too long is left out, also while it grows") {
    const TempDir folder;
    const fs::path file = folder.path() / "summaries.jsonl";
    const std::string most(RunDirectory::kMostLineBytes - 6,
                           'x');  // with {"a":" and "} it is 2 more
    append(file, "{\"a\":\"" + most.substr(2) + "\"}\n{\"a\":\"" + most.substr(1) + "\"}\n");
    append(file, "{\"step\":1}\n{\"a\":\"" + most);
    RunDirectory run(folder.path());
    CHECK(run.read_on().size() == 2);
    append(file, most);
    CHECK(run.read_on().empty());
    append(file, "\"}");
    CHECK(run.read_on().empty());
    append(file, "\n{\"step\":2}\n");
    CHECK(shown(run.read_on()) == "train 2");
  }

  TEST_CASE("run_directory: a large file comes in parts") {
    const TempDir folder;
    const std::string line = "{\"step\":1,\"a\":\"" + std::string(100'000, 'x') + "\"}\n";
    const std::size_t count = RunDirectory::kMostBytesAtOnce / line.size() * 2;
    {
      std::ofstream file(folder.path() / "summaries.jsonl", std::ios::binary);
      for (std::size_t i = 0; i < count; ++i) file << line;
    }
    RunDirectory run(folder.path());
    std::vector<std::size_t> parts;
    for (auto lines = run.read_on(); !lines.empty(); lines = run.read_on()) {
      parts.push_back(lines.size());
    }
    REQUIRE(parts.size() >= 2);
    CHECK(parts[0] * line.size() <= RunDirectory::kMostBytesAtOnce);
    std::size_t sum = 0;
    for (const std::size_t part : parts) sum += part;
    CHECK(sum == count);
  }

  TEST_CASE("run_directory: links and pipes are not read") {
    const TempDir folder;
    const TempDir other;
    append(other.path() / "secret", "{\"step\":1}\n");
    fs::create_directories(other.path() / "eval");
    append(other.path() / "eval/summaries.jsonl", "{\"step\":2}\n");
    fs::create_symlink(other.path() / "secret", folder.path() / "summaries.jsonl");
    fs::create_directory_symlink(other.path() / "eval", folder.path() / "eval");
    REQUIRE(::mkfifo((folder.path() / "run.jsonl").c_str(), 0600) == 0);
    CHECK(RunDirectory(folder.path()).read_on().empty());
  }

  TEST_CASE("run_directory: what is no run is refused") {
    const TempDir folder;
    CHECK_THROWS_WITH_AS(RunDirectory(folder.path() / "missing"),
                         doctest::Contains("is not a directory"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(RunDirectory{folder.path()}, doctest::Contains("tells of a run"),
                         troupe::ConfigError);
  }
}

}  // namespace run_directory_test
