// Event files as they are written: bytes and names.
#include "troupe/report/event_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/report/event_message.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
namespace fs = std::filesystem;
using troupe::EventFile;

std::string hex(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string digits;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return digits;
}

std::string name_of(const EventFile& file) { return fs::path(file.path()).filename().string(); }

/// While it lives, this process's files cannot grow beyond `bytes`: what a full disk looks like.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uintmax_t bytes) : former_action_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit{bytes, former_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    ::signal(SIGXFSZ, former_action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*former_action_)(int);
  rlimit former_{};
};

}  // namespace

TEST_SUITE("summaries") {
  // docs/summaries.md explains these bytes.
  TEST_CASE("event_file: the format is pinned") {
    const TempDir dir;
    EventFile file(dir.path().string(), kNow);
    file.write(troupe::encode_session_start(100, kNow + 1));
    file.write(troupe::encode_scalars(300, {{"loss", 0.25}, {"a/b", -1}}, kNow + 2));
    file.write(troupe::encode_text(300, "path", "x", kNow + 3));
    // Per record: length, its checksum, message, its checksum.
    CHECK(hex(content_of(file.path())) ==
          "1800000000000000"
          "a37f4b22"
          "0900002040fc54d9411a0d627261696e2e4576656e743a32"
          "2b353110"
          "0f00000000000000"
          "6d532b09"
          "0900006040fc54d94110643a020801"
          "f1ea88bc"
          "4100000000000000"
          "00a9c2ab"
          "090000a040fc54d94110ac022a330a180a046c6f7373150000803e4a0b0a090a07736361"
          "6c6172730a170a03612f6215000080bf4a0b0a090a077363616c617273"
          "241f152f"
          "2d00000000000000"
          "3c418afb"
          "090000e040fc54d94110ac022a1f0a1d0a0470617468420b08071204120208014201784a"
          "080a060a0474657874"
          "ef803dd6");
  }

  TEST_CASE("event_file: names say second, process and count, and sort in the order of writing") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    const EventFile first(directory, kNow);
    const std::string process = troupe::text(".", ::getpid(), ".0");
    CHECK(name_of(first).substr(0, 31) == "events.out.tfevents.1700000000.");
    CHECK(name_of(first).substr(name_of(first).size() - process.size()) == process);

    SUBCASE("in the same second") {
      const EventFile second(directory, kNow);
      CHECK(event_names(directory) == std::vector<std::string>{name_of(first), name_of(second)});
    }
    SUBCASE("when the clock was set back") {
      const EventFile second(directory, kNow - 1000);
      CHECK(event_names(directory) == std::vector<std::string>{name_of(first), name_of(second)});
    }
    SUBCASE("a short number of seconds has zeros in front") {
      const TempDir other;
      CHECK(name_of(EventFile(other.path().string(), 7)).substr(0, 31) ==
            "events.out.tfevents.0000000007.");
    }
  }

  TEST_CASE("event_file: a name that is taken is never written over") {
    const TempDir dir;
    // The largest number that a name has room for: seconds cannot tell files apart any more.
    const double last = 9'999'999'999.0;
    const EventFile first(dir.path().string(), last);
    const EventFile second(dir.path().string(), last);
    const EventFile third(dir.path().string(), std::numeric_limits<double>::infinity());
    CHECK(name_of(second) == name_of(first).substr(0, name_of(first).size() - 1) + "1");
    CHECK(name_of(third) == name_of(first).substr(0, name_of(first).size() - 1) + "2");
  }

  TEST_CASE("event_file: a new file can be read before anything is written to it") {
    const TempDir dir;
    const EventFile file(dir.path().string(), kNow);
    CHECK(content_of(file.path()).find("brain.Event:2") != std::string::npos);
  }

  TEST_CASE("event_file: numbers beyond float32 become infinities") {
    const TempDir dir;
    const auto stored = [](double value) {
      return troupe::decode_event(troupe::encode_scalars(1, {{"x", value}}, kNow)).scalars[0].value;
    };
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(stored(1e300) == infinity);
    CHECK(stored(-1e300) == -infinity);
    CHECK(stored(infinity) == infinity);
    CHECK(stored(0.1) == double{0.1F});
    CHECK(stored(1e-300) == 0);
  }

  TEST_CASE("event_file: a directory that is missing is an error") {
    const TempDir dir;
    CHECK_THROWS_AS(EventFile((dir / "none").string(), kNow), troupe::EnvironmentError);
  }

  TEST_CASE("event_file: a disk that is full is an error") {
    const TempDir dir;
    EventFile file(dir.path().string(), kNow);
    const FileSizeLimit limit(fs::file_size(file.path()) + 10);
    CHECK_THROWS_AS(file.write(troupe::encode_scalars(1, {{"loss", 1}}, kNow)),
                    troupe::EnvironmentError);
  }
}
