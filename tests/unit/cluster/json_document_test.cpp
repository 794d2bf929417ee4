// JSON from a path: files, pipes that a shell makes, and what never ends.
#include "troupe/cli/cluster/json_document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace json_document_test {

using troupe::parse_json_file;
using troupe::testing::TempDir;

namespace {

constexpr std::chrono::milliseconds kSoon{100};

struct Pipe {
  troupe::UniqueFd out;
  troupe::UniqueFd in;
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    out = troupe::UniqueFd(ends[0]);
    in = troupe::UniqueFd(ends[1]);
  }
  /// As the shell names it to a program.
  [[nodiscard]] std::string path() const { return troupe::text("/dev/fd/", out.get()); }
  void write(const std::string& content) const {
    REQUIRE(::write(in.get(), content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()));
  }
};

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("json_document: a file, and a shell's pipe that is written later and in pieces") {
    const TempDir dir;
    std::ofstream(dir / "file.json") << R"({"epochs": 3})";
    CHECK(parse_json_file(dir / "file.json", "--config").at("epochs") == 3);
    Pipe pipe;
    pipe.write(R"({"epo)");
    std::thread writer([&] {
      pipe.write(R"(chs": 4})");
      pipe.in.reset();
    });
    CHECK(parse_json_file(pipe.path(), "--config").at("epochs") == 4);
    writer.join();
  }

  TEST_CASE("json_document: what does not end is given up at the deadline") {
    const TempDir dir;
    const auto refused = [&](const std::string& path, const char* reason) {
      CHECK_THROWS_WITH_AS((void)parse_json_file(path, "--config", kSoon),
                           doctest::Contains(reason), troupe::ConfigError);
    };
    REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
    refused(dir / "pipe", "pipe did not end within 0.1 s");  // nobody writes
    const Pipe pipe;
    pipe.write("{");
    refused(pipe.path(), "did not end within 0.1 s");  // the writer stays
    refused("/dev/zero", "has more than 1048576 bytes");
    refused(dir / "none", "none cannot be read");
    refused(dir.path(), " cannot be read");
  }
}

}  // namespace json_document_test
