// Whether checkpoints have a place, before there are any.
#include "troupe/train/checkpoint/checkpoint_room.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

using troupe::check_room;
using troupe::check_writable;
using troupe::checkpoints_ahead;
using troupe::EnvironmentError;
using troupe::testing::TempDir;

TEST_SUITE("train") {
  TEST_CASE("room: a directory that could be made is accepted, and not made") {
    const TempDir dir;
    const std::string path = (dir / "a" / "b").string();
    check_writable(path, "--model-dir");
    CHECK_FALSE(std::filesystem::exists(dir / "a"));
    CHECK(troupe::free_bytes(path) > 0);
  }

  TEST_CASE("room: a file on the way is named") {
    const TempDir dir;
    std::ofstream(dir / "file") << "no folder";
    CHECK_THROWS_WITH_AS(check_writable((dir / "file" / "run").string(), "--model-dir"),
                         doctest::Contains("is no directory"), EnvironmentError);
  }

  TEST_CASE("room: as many checkpoints as are kept, and the one that is written") {
    const TempDir dir;
    troupe::TrainOptions options;
    options.model_dir = dir.path().string();
    options.save_checkpoints_steps = 10;
    CHECK(checkpoints_ahead(options, 0, 1'000) == 6);
    CHECK(checkpoints_ahead(options, 0, 20) == 4);  // steps 0, 10 and 20, and one more at the end
    CHECK(checkpoints_ahead(options, 0, 5) == 2);   // steps 0 and 5
    options.keep_checkpoint_max = 0;
    CHECK(checkpoints_ahead(options, 0, 1'000) == 102);
    CHECK(checkpoints_ahead(options, 990, 1'000) == 3);
    CHECK(checkpoints_ahead(options, 0, std::numeric_limits<std::int64_t>::max()) == 1);
    options.save_checkpoints_steps = 0;
    CHECK(checkpoints_ahead(options, 0, 1'000) == 0);
  }

  TEST_CASE("room: checkpoints that are there make room for those to come") {
    const TempDir dir;
    troupe::TrainOptions options;
    options.model_dir = dir.path().string();
    options.save_checkpoints_steps = 10;
    for (const char* name : {"model.ckpt-10", "model.ckpt-20"}) {
      std::filesystem::create_directory(dir / name);
    }
    CHECK(checkpoints_ahead(options, 20, 1'000) == 4);
  }

  TEST_CASE("room: too little is said with what is needed and what there is") {
    check_room("run", 1'000'000, 6, 6'000'000);
    CHECK_THROWS_WITH_AS(check_room("run", 1'000'000, 6, 5'999'999),
                         doctest::Contains("6 checkpoints of 1.0 MB need 6.0 MB"),
                         EnvironmentError);
  }
}
