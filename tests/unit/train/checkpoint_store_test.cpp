// Saving, finding, refusing and retiring checkpoints on real files.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/train/checkpoint_samples.h"
#include "tests/unit/train/memory_file_system.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/sha256.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/checkpoint/checkpoint_writer.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
namespace fs = std::filesystem;
using troupe::CheckpointError;
using troupe::CheckpointReader;
using troupe::CheckpointWriter;
using troupe::PosixFileSystem;
using Steps = std::vector<std::int64_t>;

Steps steps_in(troupe::FileSystem& files) {
  Steps steps;
  for (const auto& info : CheckpointReader(files).all()) steps.push_back(info.step);
  return steps;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void replace(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// As another version would have written it, with a digest that is right.
void set_version(const fs::path& checkpoint, int version) {
  nlohmann::json manifest = nlohmann::json::parse(content_of(checkpoint / "manifest.json"));
  manifest["version"] = version;
  manifest.erase("sha256");
  manifest["sha256"] = troupe::sha256_hex(manifest.dump());
  replace(checkpoint / "manifest.json", manifest.dump());
}

// A model directory with steps 1 and 2.
struct Store {
  TempDir dir;
  PosixFileSystem files{dir.path().string()};
  Store() {
    CheckpointWriter writer(files, sample_owner());
    save_sample(writer, 1);
    save_sample(writer, 2);
  }
};

/// Whose files are read for the first time while they are written.
class HalfWritten final : public MemoryFileSystem {
 public:
  int looks = 0;
  std::vector<std::byte> read_file(const std::string& path, std::uint64_t max_bytes) override {
    std::vector<std::byte> bytes = MemoryFileSystem::read_file(path, max_bytes);
    if (++looks == 1) bytes.resize(5);
    return bytes;
  }
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("checkpoint: a directory that is not there or empty has none") {
    const TempDir dir;
    PosixFileSystem files((dir / "later").string());
    CHECK_FALSE(CheckpointReader(files).latest().has_value());
    CHECK(CheckpointReader(files).all().empty());
  }

  TEST_CASE("checkpoint: retention keeps the last ones, over restarts and when it is lowered") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    {
      CheckpointWriter writer(files, sample_owner(), {4});
      for (std::int64_t step = 0; step < 12; ++step) save_sample(writer, step);
      CHECK(steps_in(files) == Steps{8, 9, 10, 11});
    }
    CheckpointWriter writer(files, sample_owner(), {2});
    save_sample(writer, 100);
    CHECK(steps_in(files) == Steps{11, 100});
    CHECK(troupe::read_index(files)->retained == Steps{11, 100});
    CHECK(newest(files) == 100);
  }

  TEST_CASE("checkpoint: the best one stays until another is, over restarts") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    {
      CheckpointWriter writer(files, sample_owner(), {2});
      save_sample(writer, 1);
      writer.mark_best({1, "accuracy", 0.5});
      for (std::int64_t step = 2; step < 6; ++step) save_sample(writer, step);
      CHECK(steps_in(files) == Steps{1, 4, 5});
    }
    CheckpointWriter writer(files, sample_owner(), {2});
    REQUIRE(writer.best().has_value());
    CHECK(writer.best()->value == 0.5);
    save_sample(writer, 6);
    CHECK(steps_in(files) == Steps{1, 5, 6});
    writer.mark_best({6, "accuracy", 0.75});
    CHECK(troupe::read_index(files)->best->step == 6);
    CHECK(troupe::read_index(files)->retained == Steps{1, 5, 6});  // the old one is the next to go
    save_sample(writer, 7);
    CHECK(steps_in(files) == Steps{6, 7});
    for (std::int64_t step = 8; step < 11; ++step) save_sample(writer, step);
    CHECK(steps_in(files) == Steps{6, 9, 10});
    CHECK(newest(files) == 10);
  }

  TEST_CASE("checkpoint: a best one that somebody has removed is the best no longer") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    {
      CheckpointWriter writer(files, sample_owner());
      save_sample(writer, 1);
      writer.mark_best({1, "accuracy", 0.5});
      save_sample(writer, 2);
    }
    fs::remove_all(dir / "model.ckpt-1");
    CHECK_FALSE(CheckpointWriter(files, sample_owner()).best().has_value());
  }

  TEST_CASE("checkpoint: an index with a best one that is none is refused") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    {
      CheckpointWriter writer(files, sample_owner());
      save_sample(writer, 1);
      writer.mark_best({1, "accuracy", 0.5});
    }
    const std::string good = content_of(dir / "checkpoint");
    const auto broken = [&](const std::string& pointer, const nlohmann::json& value) {
      nlohmann::json index = nlohmann::json::parse(good);
      index[nlohmann::json::json_pointer(pointer)] = value;
      replace(dir / "checkpoint", index.dump());
      CAPTURE(index.dump());
      CHECK_THROWS_AS((void)troupe::read_index(files), CheckpointError);
    };
    broken("/best", 5);
    broken("/best/checkpoint", "../model.ckpt-1");
    broken("/best/metric", 1);
    broken("/best/value", "0.5");
    broken("/best/value", nullptr);
  }

  TEST_CASE("checkpoint: one for each span of time stays for ever") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    std::chrono::system_clock::time_point now{std::chrono::hours(1000)};
    CheckpointWriter writer(files, sample_owner(), {1, std::chrono::hours(1)}, [&] { return now; });
    for (std::int64_t step = 0; step < 10; ++step, now += std::chrono::minutes(25)) {
      save_sample(writer, step);
    }
    // Written after 0, 25, 50, 75, ... minutes; kept are the first after 60, 120 and 180.
    CHECK(steps_in(files) == Steps{3, 5, 8, 9});
    CHECK_THROWS_AS(CheckpointWriter(files, sample_owner(), {-1}), troupe::ConfigError);
  }

  TEST_CASE("checkpoint: one for each span of time stays, however often training is restarted") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    std::chrono::system_clock::time_point now{std::chrono::hours(1000)};
    for (std::int64_t step = 0; step < 10; ++step, now += std::chrono::minutes(25)) {
      CheckpointWriter writer(files, sample_owner(), {1, std::chrono::hours(1)},
                              [&] { return now; });
      save_sample(writer, step);
    }
    CHECK(steps_in(files) == Steps{3, 5, 8, 9});
    // A shorter span counts from now on.
    CheckpointWriter writer(files, sample_owner(), {1, std::chrono::minutes(20)},
                            [&] { return now; });
    now += std::chrono::minutes(25);
    save_sample(writer, 10);
    save_sample(writer, 11);
    CHECK(steps_in(files) == Steps{3, 5, 8, 10, 11});
  }

  TEST_CASE("checkpoint: saved again, an equal one stays and another one is replaced") {
    const Store store;
    PosixFileSystem files(store.dir.path().string());
    CheckpointWriter writer(files, sample_owner());
    const auto before = fs::last_write_time(store.dir / "model.ckpt-2/model.safetensors");
    save_sample(writer, 2);
    CHECK(fs::last_write_time(store.dir / "model.ckpt-2/model.safetensors") == before);
    writer.save(2, {sample_file("other", "x")}, {});
    CHECK(CheckpointReader(files).latest()->files.at(0).name == "other");
    CHECK(steps_in(files) == Steps{1, 2});
  }

  TEST_CASE("checkpoint: one that is damaged in any way is refused and the one before is used") {
    const Silence silence;
    struct Row {
      const char* what;
      std::function<void(const fs::path&)> damage;  // of model.ckpt-2
    };
    const Row rows[] = {
        {"truncated", [](const fs::path& d) { fs::resize_file(d / "model.safetensors", 50); }},
        {"empty", [](const fs::path& d) { fs::resize_file(d / "state.safetensors", 0); }},
        {"longer", [](const fs::path& d) { fs::resize_file(d / "state.safetensors", 900); }},
        {"missing", [](const fs::path& d) { fs::remove(d / "state.safetensors"); }},
        {"swapped",
         [](const fs::path& d) {
           fs::rename(d / "model.safetensors", d / "x");
           fs::rename(d / "state.safetensors", d / "model.safetensors");
           fs::rename(d / "x", d / "state.safetensors");
         }},
        {"another step's file",
         [](const fs::path& d) {
           fs::copy_file(d.parent_path() / "model.ckpt-1/model.safetensors",
                         d / "model.safetensors", fs::copy_options::overwrite_existing);
         }},
        {"another step's directory",
         [](const fs::path& d) {
           fs::remove_all(d);
           fs::copy(d.parent_path() / "model.ckpt-1", d);
         }},
        {"directory instead of file",
         [](const fs::path& d) {
           fs::remove(d / "model.safetensors");
           fs::create_directory(d / "model.safetensors");
         }},
        {"link instead of file",
         [](const fs::path& d) {
           fs::rename(d / "model.safetensors", d.parent_path() / "elsewhere");
           fs::create_symlink(d.parent_path() / "elsewhere", d / "model.safetensors");
         }},
        {"link instead of directory",
         [](const fs::path& d) {
           fs::rename(d, d.parent_path() / "elsewhere");
           fs::create_symlink(d.parent_path() / "elsewhere", d);
         }},
        {"file instead of directory",
         [](const fs::path& d) {
           fs::remove_all(d);
           replace(d, "x");
         }},
        {"no manifest", [](const fs::path& d) { fs::remove(d / "manifest.json"); }},
        {"newer format", [](const fs::path& d) { set_version(d, 3); }},
        {"a version of before", [](const fs::path& d) { set_version(d, 1); }},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const Store store;
      row.damage(store.dir / "model.ckpt-2");
      PosixFileSystem files(store.dir.path().string());
      CHECK(newest(files) == 1);
    }
  }

  TEST_CASE("checkpoint: any flipped bit of a manifest or a file is found") {
    const Silence silence;
    const Store store;
    PosixFileSystem files(store.dir.path().string());
    for (const char* const name : {"manifest.json", "state.safetensors"}) {
      const fs::path path = store.dir / "model.ckpt-2" / name;
      const std::string good = content_of(path);
      for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        std::string flipped = good;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
        replace(path, flipped);
        CAPTURE(bit);
        const auto found = newest(files);  // 2: only white space of the manifest
        CHECK((found == 1 || (found == 2 && name[0] == 'm' && good[bit / 8] <= ' ')));
      }
      replace(path, good);
    }
  }

  TEST_CASE("checkpoint: where all are damaged, training does not start over in silence") {
    const Silence silence;
    const Store store;
    PosixFileSystem files(store.dir.path().string());
    fs::resize_file(store.dir / "model.ckpt-1/model.safetensors", 1);
    fs::remove(store.dir / "model.ckpt-2/state.safetensors");
    CHECK_THROWS_WITH_AS(static_cast<void>(newest(files)),
                         doctest::Contains("state.safetensors' is missing"), CheckpointError);
  }

  TEST_CASE("checkpoint: a loader's refusal leads to the one before, other errors pass") {
    const Silence silence;
    const Store store;
    PosixFileSystem files(store.dir.path().string());
    CheckpointReader reader(files);
    const auto info = reader.load_latest([](const troupe::CheckpointInfo& each) {
      if (each.step == 2) throw CheckpointError("not this.", "");
    });
    CHECK(info->step == 1);
    CHECK_THROWS_AS(static_cast<void>(reader.load_latest(
                        [](const auto&) { throw troupe::ConfigError("other model.", ""); })),
                    troupe::ConfigError);
  }

  TEST_CASE("checkpoint: an index that is damaged or names other places is not believed") {
    const Silence silence;
    const Store store;
    PosixFileSystem files(store.dir.path().string());
    const std::string good = content_of(store.dir / "checkpoint");
    for (const char* const name :
         {"../model.ckpt-1", "/model.ckpt-1", "model.ckpt-01", "model.ckpt--1", "model.ckpt-",
          "model.ckpt-99999999999999999999"}) {
      std::string bad = good;
      bad.replace(bad.find("model.ckpt-2"), 12, name);
      replace(store.dir / "checkpoint", bad);
      CHECK_THROWS_AS(static_cast<void>(troupe::read_index(files)), CheckpointError);
      CHECK(newest(files) == 2);
    }
    replace(store.dir / "checkpoint", "{");
    CHECK(newest(files) == 2);
    // A good index decides, and the highest step where there is none: never the time of a file.
    CheckpointWriter(files, sample_owner()).save(1, sample_files(1), {{"step", 1}});
    CHECK(newest(files) == 1);
    fs::remove(store.dir / "checkpoint");
    fs::last_write_time(store.dir / "model.ckpt-2", fs::file_time_type::min());
    CHECK(newest(files) == 2);
  }

  TEST_CASE("checkpoint: nothing is deleted that Troupe did not write") {
    const Silence silence;
    const Store store;
    const std::vector<std::string> foreign = {"model.ckpt-0/notes",         "model.ckpt-7.tmp-99/x",
                                              "model.ckpt-7.del-99/x",      "model.ckpt-1/notes",
                                              "model.ckpt-5.tmp-x/.troupe", "model.ckpt-5.index"};
    for (const std::string& path : foreign) {
      fs::create_directories((store.dir / path).parent_path());
      replace(store.dir / path, "mine");
    }
    PosixFileSystem files(store.dir.path().string());
    CheckpointWriter writer(files, sample_owner(), {1});
    for (std::int64_t step = 3; step < 6; ++step) save_sample(writer, step);
    for (const std::string& path : foreign) {
      CAPTURE(path);
      CHECK(content_of(store.dir / path) == "mine");
    }
    CHECK(steps_in(files) == Steps{1, 5});  // 1 holds a foreign file and stays, 2 was deleted
    CHECK_THROWS_WITH_AS(save_sample(writer, 0), doctest::Contains("not written by Troupe"),
                         CheckpointError);
  }

  TEST_CASE("checkpoint: what a dead process left half written is removed") {
    const Store store;
    for (const char* const name : {"model.ckpt-3.tmp-99", "model.ckpt-1.del-99"}) {
      fs::create_directory(store.dir / name);
      replace(store.dir / name / ".troupe", "");
      replace(store.dir / name / "model.safetensors", "half");
    }
    fs::create_directory(store.dir / "model.ckpt-4.tmp-99");
    PosixFileSystem files(store.dir.path().string());
    const CheckpointWriter writer(files, sample_owner());
    CHECK_FALSE(fs::exists(store.dir / "model.ckpt-3.tmp-99"));
    CHECK_FALSE(fs::exists(store.dir / "model.ckpt-1.del-99"));
    CHECK_FALSE(fs::exists(store.dir / "model.ckpt-4.tmp-99"));
  }

  TEST_CASE("checkpoint: file names that could lead elsewhere and values that change are refused") {
    const Store store;
    PosixFileSystem files(store.dir.path().string());
    CheckpointWriter writer(files, sample_owner());
    for (const char* const name :
         {"", "..", ".troupe", "a/b", "../x", "/x", "manifest.json", "a b", "\xc3\xa4"}) {
      CAPTURE(name);
      CHECK_THROWS_AS(writer.save(9, {sample_file(name, "x")}), CheckpointError);
    }
    CHECK_THROWS_AS(writer.save(9, {sample_file("a", "x"), sample_file("a", "x")}),
                    CheckpointError);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(writer.save(9, sample_files(9), {{"loss", nan}}), CheckpointError);
    CHECK(newest(files) == 2);
    CHECK_FALSE(fs::exists(store.dir / "model.ckpt-9.tmp-7"));
  }

  TEST_CASE("checkpoint: one process writes, and the other is told who") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    {
      CheckpointWriter writer(files, {"machine-a", 41, 3});
      CHECK_THROWS_WITH_AS(CheckpointWriter(files, {"machine-a", 42, 3}),
                           doctest::Contains("process 41 on machine 'machine-a' (generation 3)"),
                           troupe::EnvironmentError);
      // A record that someone else wrote meanwhile: this writer has no say any more.
      const std::string ours = content_of(dir / ".troupe-lock");
      replace(dir / ".troupe-lock", R"({"machine":"machine-b","pid":5,"generation":9})");
      CHECK_THROWS_WITH_AS(save_sample(writer, 1), doctest::Contains("machine 'machine-b'"),
                           CheckpointError);
      replace(dir / ".troupe-lock", ours);
      save_sample(writer, 1);
    }
    CHECK(content_of(dir / ".troupe-lock").rfind("{\"generation\":3} ", 0) ==
          0);  // given back in order
    const auto left_by = [&](const char* record) { replace(dir / ".troupe-lock", record); };
    left_by(R"({"machine":"machine-b","pid":5,"generation":1})");
    CHECK_THROWS_WITH_AS(CheckpointWriter(files, sample_owner()), doctest::Contains("machine-b"),
                         troupe::EnvironmentError);
    left_by(R"({"machine":"machine-b","pid":5,"generation":0})");  // the job was started again
    CHECK_NOTHROW(CheckpointWriter(files, sample_owner()));
    for (const char* const record :
         {R"({"machine":"machine-a","pid":5,"generation":1})", "{", "{}", "\xff"}) {
      left_by(record);
      CheckpointWriter writer(files, sample_owner());
      save_sample(writer, 2);
    }
  }

  TEST_CASE(
      "checkpoint: whoever may write next can tell whether the chief of its start writes there") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    CHECK_FALSE(troupe::generation_on_record(files));
    {
      const troupe::CheckpointLock lock(files, troupe::this_process(7));
      CHECK(troupe::generation_on_record(files) == 7U);
    }
    CHECK(troupe::generation_on_record(files) == 7U);  // it ended in order
    replace(dir / ".troupe-lock", R"({"machine":"machine-b","pid":5,"generation":9})");
    CHECK(troupe::generation_on_record(files) == 9U);
    replace(dir / ".troupe-lock", "no record");
    CHECK_FALSE(troupe::generation_on_record(files));
  }

  TEST_CASE("checkpoint: a record that is being written is looked at again") {
    HalfWritten files;
    const troupe::CheckpointLock lock(files, troupe::this_process(9));
    files.looks = 0;
    CHECK(troupe::generation_on_record(files) == 9U);
    CHECK(files.looks == 2);
  }

  TEST_CASE(
      "checkpoint: what a killed process of this machine left is taken over, whatever its clock") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    const auto later = R"({"machine":"machine-a","pid":5,"generation":3600000})";
    replace(dir / ".troupe-lock", later);
    {
      CheckpointWriter writer(files, {"machine-a", 42, 3});
      save_sample(writer, 1);
      // Another machine's straggler is not let in by the clock that was set back here.
      const std::string ours = content_of(dir / ".troupe-lock");
      CHECK(ours.find("3600000") != std::string::npos);
    }
    replace(dir / ".troupe-lock", later);
    CHECK_NOTHROW(CheckpointWriter(files, {"machine-a", 43, 0}));  // the program alone
    replace(dir / ".troupe-lock", later);
    CHECK_THROWS_WITH_AS(CheckpointWriter(files, {"machine-b", 43, 3}),
                         doctest::Contains("did not shut down cleanly"), troupe::EnvironmentError);
  }

  TEST_CASE("checkpoint: a reader beside the writer always finds one, and never an older one") {
    const Silence silence;
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    CheckpointWriter writer(files, sample_owner(), {1});
    save_sample(writer, 0);
    std::atomic<bool> done{false};
    std::string problem;
    std::thread reader([&] {
      PosixFileSystem own(dir.path().string());
      std::int64_t last = 0;
      while (!done && problem.empty()) {
        try {
          const auto info = CheckpointReader(own).latest();
          if (!info || info->step < last) problem = "went back";
          if (info) last = info->step;
        } catch (const std::exception& error) {
          problem = error.what();
        }
      }
    });
    for (std::int64_t step = 1; step <= 150; ++step) save_sample(writer, step);
    done = true;
    reader.join();
    CHECK(problem == "");
  }
}
