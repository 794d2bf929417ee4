#include "tests/support/captured_log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/train/memory_file_system.h"
#include "troupe/train/evaluation/finished_marker.h"

using troupe::Finished;
using troupe::MarkerReader;
using troupe::Seconds;
using troupe::testing::FakeClock;
using troupe::testing::MemoryFileSystem;

TEST_SUITE("train/evaluation") {
  TEST_CASE("marker_reader: a marker that appears is believed at once") {
    MemoryFileSystem files;
    files.create_root();
    const FakeClock clock;
    MarkerReader reader(files, clock);
    CHECK_FALSE(reader.read());
    write_finished(files, Finished{40, {40, {}}, "max_steps 40 is reached"});
    REQUIRE(reader.read());
    CHECK(reader.read()->step == 40);
  }

  TEST_CASE("marker_reader: one of an earlier run may be taken away first") {
    MemoryFileSystem files;
    files.create_root();
    write_finished(files, Finished{300, {600, {}}, "early stopping"});
    FakeClock clock;
    MarkerReader reader(files, clock);
    CHECK_FALSE(reader.read());
    SUBCASE("it stays: nobody trains any more") {
      clock.advance(MarkerReader::kGrace);
      REQUIRE(reader.read());
      CHECK(reader.read()->step == 300);
    }
    SUBCASE("the chief goes on and finishes") {
      clear_finished(files);
      CHECK_FALSE(reader.read());
      write_finished(files, Finished{600, {600, {}}, "max_steps 600 is reached"});
      REQUIRE(reader.read());
      CHECK(reader.read()->step == 600);
    }
  }
}
