// While a group trains, its secret is nowhere but in its processes' memory: not in an argument, a
// variable, the name of a mapping, a log, a checkpoint or the output; and the evaluator has none.
#include <dirent.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "core/text.h"
#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
namespace fs = std::filesystem;

constexpr const char* kMemoryFile = "/memfd:troupe-secret";

/// "" for what cannot be read, such as a directory, or a process that has just ended.
std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

/// Base 64 (RFC 4648, section 4) of whole groups of three bytes.
std::string base64(const std::string& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i + 3 <= bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | static_cast<unsigned char>(bytes[i + j]);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[group >> shift & 63];
  }
  return text;
}

/// What half of a secret looks like, in all the ways in which programs write bytes.
std::vector<std::string> needles_of(const std::string& secret) {
  const std::string half = secret.substr(0, 18);
  const std::string hex =
      troupe::hex_of({reinterpret_cast<const std::byte*>(half.data()), half.size()});
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string url = base64(half);
  for (char& c : url) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return {half, hex, upper, base64(half), url};
}

/// Appends `place` for every needle in `text`.
void search(const std::string& text, const std::string& place,
            const std::vector<std::string>& needles, std::vector<std::string>& hits) {
  for (const std::string& needle : needles)
    if (has(text, needle)) hits.push_back(place);
}

/// Every process of this machine, every file below `folder`.
std::vector<std::string> places_of(const std::vector<std::string>& needles,
                                   const fs::path& folder) {
  std::vector<std::string> hits;
  for (const auto& process : fs::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(process.path().filename().string()[0]))) continue;
    for (const char* file : {"cmdline", "environ", "maps"})
      search(content_of(process.path() / file), (process.path() / file).string(), needles, hits);
  }
  std::error_code gone;  // a checkpoint may be deleted meanwhile
  for (fs::recursive_directory_iterator at(folder, gone), end; at != end; at.increment(gone))
    search(content_of(at->path()), at->path().string(), needles, hits);
  return hits;
}

/// Open files of a process that hold a secret.
std::vector<std::string> secret_files(const std::string& process) {
  std::vector<std::string> found;
  std::error_code gone;
  for (fs::directory_iterator at("/proc/" + process + "/fd", gone), end; at != end;
       at.increment(gone))
    if (has(fs::read_symlink(at->path(), gone).string(), kMemoryFile)) found.push_back(at->path());
  return found;
}

/// The process that carries `marker` and `variable` ("NAME=value"); "": none.
std::string process_with(const std::string& marker, const std::string& variable) {
  for (const auto& process : fs::directory_iterator("/proc")) {
    const std::string environment = content_of(process.path() / "environ");
    if (has(environment, marker) && has(environment, variable + '\0'))
      return process.path().filename().string();
  }
  return "";
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("secret: in no argument, variable, mapping, log, checkpoint or output of a training") {
    const TempDir dir;
    const TempDir keys;
    const std::string given = (keys / "key").string();
    for (const bool drawn : {true, false}) {
      CAPTURE(drawn);
      const fs::path folder = dir / (drawn ? "drawn" : "given");
      const std::string mark = std::to_string(getpid()) + (drawn ? "-drawn" : "-given");
      Words command = {
          kTool, "run", "--workers", "2", "--evaluator", "--log-dir", (folder / "logs").string()};
      if (!drawn) {
        std::ofstream(given, std::ios::binary)
            << std::string("\x01\xfe\x80", 3) + "0/the-secret-of-this-test+9\n!";
        fs::permissions(given, fs::perms::owner_read | fs::perms::owner_write);
        command = command + Words{"--secret-file", given};
      }
      command = command + Words{"--",
                                kBuild + "/examples/linear_regression",
                                "--mode",
                                "train-and-evaluate",
                                "--model-dir",
                                (folder / "run").string(),
                                "--max-steps",
                                "100000000",
                                "--save-checkpoints-steps",
                                "50",
                                "--log-level",
                                "debug",
                                "--log-every",
                                "50",
                                "--start-delay-secs",
                                "0",
                                "--throttle-secs",
                                "0.1"};
      ProcessOptions options;
      options.set["SECRET_TEST_MARK"] = mark;
      Process run(command, options);
      REQUIRE(run.wait_for_output("[evaluator/0]", kLimit));
      REQUIRE(run.wait_for_output("step = 200 (", kLimit));
      const std::string variable = "SECRET_TEST_MARK=" + mark;
      const std::vector<std::string> held = secret_files(std::to_string(run.pid()));
      REQUIRE(held.size() == 1);
      const std::string secret = content_of(held[0]);
      REQUIRE(secret.size() >= 32);
      if (!drawn) CHECK(secret == content_of(given));
      const std::vector<std::string> needles = needles_of(secret);

      for (const char* which : {"TROUPE_RANK=0", "TROUPE_RANK=1", "TROUPE_TASK=evaluator:0"}) {
        CAPTURE(which);
        const std::string process = process_with(variable, which);
        REQUIRE_FALSE(process.empty());
        CHECK(secret_files(process).empty());  // a worker has read it and closed it
      }
      CHECK(troupe::join(places_of(needles, folder)) == "");
      // The search finds what is there.
      for (std::size_t i = 1; i < needles.size(); ++i) {
        Process careless({"/bin/sh", "-c", "echo ready; exec sleep 60"},
                         {{{"CARELESS", needles[i]}}, {}, ""});
        REQUIRE(careless.wait_for_output("ready"));
        CHECK_FALSE(places_of(needles, folder).empty());
      }
      std::ofstream(folder / "careless", std::ios::binary) << secret;
      CHECK(troupe::join(places_of(needles, folder)) == (folder / "careless").string());

      run.signal(SIGTERM);
      const ProcessResult result = run.wait(kLimit);
      CHECK(result.exit_code == 143);
      std::vector<std::string> hits;
      search(result.out, "stdout", needles, hits);
      search(result.err, "stderr", needles, hits);
      CHECK(troupe::join(hits) == "");
    }
  }
}
