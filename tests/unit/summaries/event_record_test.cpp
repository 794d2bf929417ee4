// Records of event files: framing, and what is refused before memory is taken.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/caught.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"
#include "troupe/report/event_file.h"
#include "troupe/report/protobuf_wire.h"

namespace {

using namespace troupe::testing;       // NOLINT: a test
using namespace std::string_literals;  // NOLINT: texts with NUL bytes
using troupe::frame_record;
using troupe::RecordReader;

/// The 12 bytes before a message of that length.
std::string header(std::uint64_t length) {
  std::string bytes;
  troupe::append_little_endian(bytes, length);
  troupe::append_little_endian(bytes, troupe::masked_crc32c(bytes));
  return bytes;
}

}  // namespace

TEST_SUITE("summaries") {
  TEST_CASE("event_record: the checksum is CRC-32C, masked") {
    // The check value of the CRC catalogue is E3069283.
    const std::uint32_t sum = 0xE3069283;
    CHECK(troupe::masked_crc32c("123456789") == ((sum >> 15) | (sum << 17)) + 0xA282EAD8);
    CHECK(troupe::masked_crc32c("") == 0xA282EAD8);
  }

  TEST_CASE("event_record: what was framed is read, with its place") {
    const TempDir dir;
    replace(dir / "file", frame_record("one") + frame_record("") + frame_record("t\0o"s));
    RecordReader reader((dir / "file").string());
    std::string message;
    REQUIRE(reader.next(message));
    CHECK(message == "one");
    REQUIRE(reader.next(message));
    CHECK(message.empty());
    CHECK(reader.offset() == 19);
    REQUIRE(reader.next(message));
    CHECK(message == "t\0o"s);
    CHECK(reader.offset() == 35);
    CHECK_FALSE(reader.next(message));
    CHECK(reader.damage().empty());
  }

  TEST_CASE("event_record: damage ends the file and is named with file and byte") {
    const TempDir dir;
    const std::string path = (dir / "file").string();
    const std::string good = frame_record("one");
    std::string bad = frame_record("two");
    SUBCASE("in a message") { bad[13] = static_cast<char>(bad[13] ^ 1); }
    SUBCASE("in a length") { bad[0] = static_cast<char>(bad[0] ^ 1); }
    SUBCASE("in the checksum at the end") { bad[18] = static_cast<char>(bad[18] ^ 1); }
    replace(path, good + bad + frame_record("three"));
    RecordReader reader(path);
    std::string message;
    REQUIRE(reader.next(message));
    CHECK_FALSE(reader.next(message));
    CHECK(has(reader.damage(), "'" + path + "'"));
    CHECK(has(reader.damage(), "checksum"));
    CHECK(has(reader.damage(), "at byte 19"));
    CHECK_FALSE(reader.next(message));
  }

  TEST_CASE("event_record: a length that cannot be is refused before memory is taken") {
    const TempDir dir;
    const std::string path = (dir / "file").string();
    const auto refused = [&path](const std::string& reason) {
      RecordReader reader(path);
      std::string message;
      CHECK_FALSE(reader.next(message));
      CHECK(message.capacity() < 1024);
      CHECK_MESSAGE(has(reader.damage(), reason), reader.damage());
    };
    for (const int bits : {27, 40, 63}) {
      replace(path, header(std::uint64_t{1} << bits) + "some bytes");
      refused("bytes at byte 0");
    }
    replace(path, header(~std::uint64_t{0}) + "some bytes");
    refused("18446744073709551615 bytes at byte 0");
    replace(path, header(troupe::kMaxRecordBytes) + "some bytes");
    refused("ends in the middle of a record at byte 0");
    // One byte more than allowed, in a file that is long enough.
    replace(path, header(troupe::kMaxRecordBytes + 1));
    std::filesystem::resize_file(path, troupe::kMaxRecordBytes + 1000);
    refused("67108865 bytes at byte 0");
  }

  TEST_CASE("event_record: a file that grows while it is read ends where it ended") {
    const TempDir dir;
    const std::string path = (dir / "file").string();
    replace(path, frame_record("one"));
    RecordReader reader(path);
    std::ofstream(path, std::ios::binary | std::ios::app) << frame_record("two");
    std::string message;
    CHECK(reader.next(message));
    CHECK_FALSE(reader.next(message));
    CHECK(reader.damage().empty());
  }

  TEST_CASE("event_record: a file that cannot be opened is an error") {
    const TempDir dir;
    CHECK_THROWS_AS(RecordReader((dir / "none").string()), troupe::EnvironmentError);
  }
}
