#include "troupe/export/export_directory.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "tests/support/caught.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/export/export_samples.h"
#include "tests/unit/train/memory_file_system.h"
#include "troupe/core/failure.h"

using namespace troupe;
using namespace troupe::testing;
namespace fs = std::filesystem;
using Names = std::set<std::string>;

namespace {

void write_nothing(const std::string&) {}

std::string publish(const fs::path& base, FakeTime& time,
                    const std::function<void(const std::string&)>& write = write_nothing) {
  PosixFileSystem files(base.string());
  return publish_export(
      files, write, [&] { return time.now; }, [&](Seconds wait) { time.sleep(wait); });
}

void collect(const std::string& base, int keep) {
  PosixFileSystem files(base);
  collect_old_exports(files, keep);
}

void make_exports(const fs::path& base, const Names& names) {
  for (const std::string& name : names) write_text(base / name / "1/model.pt", name);
}

/// Two files, one below another directory, with content that is durable only after a sync of its
/// own, as a stream of a library leaves it.
class UnsyncedModel {
 public:
  explicit UnsyncedModel(MemoryFileSystem& files) : files_(files) {}

  void write(const std::string& directory) {
    const std::string base = directory.substr(files_.shown("").size());
    write_file(base + "/model.pt");
    files_.create_directory(base + "/1");
    write_file(base + "/1/model.pt");
  }

  [[nodiscard]] static bool is_whole(MemoryFileSystem& files, const std::string& directory) {
    return is_written(files, directory + "/model.pt") &&
           is_written(files, directory + "/1/model.pt");
  }

 private:
  void write_file(const std::string& path) {
    files_.create_file(path)->write(as_bytes(Span<const char>(kContent.data(), kContent.size())));
  }
  static bool is_written(MemoryFileSystem& files, const std::string& path) {
    if (!files.status(path)) return false;
    const auto bytes = files.read_file(path, 100);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == kContent;
  }

  inline static const std::string kContent = "a model";
  MemoryFileSystem& files_;
};

std::string publish(MemoryFileSystem& files, UnsyncedModel& model, FakeTime& time) {
  return publish_export(
      files, [&](const std::string& to) { model.write(to); }, [&] { return time.now; },
      [&](Seconds wait) { time.sleep(wait); });
}

}  // namespace

TEST_SUITE("export") {
  TEST_CASE("publish: the directory is named by the clock, made where missing, and whole") {
    const TempDir directory;
    const fs::path base = directory / "a/b/latest";
    FakeTime time;
    const std::string path = publish(base, time, [&](const std::string& to) {
      CHECK(to == (base / "temp-1700000000").string());
      CHECK(fs::is_empty(to));
      write_text(fs::path(to) / "model.pt", "weights");
      write_text(fs::path(to) / "assets.extra/words.txt", "words");
      fs::create_directory(fs::path(to) / "1");
      fs::create_hard_link(fs::path(to) / "model.pt", fs::path(to) / "1/model.pt");
      fs::create_symlink("/nowhere", fs::path(to) / "dangling");
    });
    CHECK(path == (base / "1700000000").string());
    CHECK(names_in(base) == Names{"1700000000"});
    CHECK(names_in(path) == Names{"model.pt", "assets.extra", "1", "dangling"});
    CHECK(read_text(base / "1700000000/1/model.pt") == "weights");
    CHECK(time.sleeps == 0);
  }

  TEST_CASE("publish: a second export within a second gets the next one's name") {
    const TempDir directory;
    FakeTime time;
    const std::string first = publish(directory.path(), time);
    const std::string second = publish(directory.path(), time);
    CHECK(first == (directory / "1700000000").string());
    CHECK(second == (directory / "1700000001").string());
    CHECK(time.sleeps == 1);
  }

  TEST_CASE("publish: what another process is writing, or left, is its own and its name taken") {
    const TempDir directory;
    write_text(directory / "temp-1700000000" / "half", "half");
    write_text(directory / "temp-1600000000" / "half", "half");
    write_text(directory / "1700000001", "a file");
    FakeTime time;
    CHECK(publish(directory.path(), time) == (directory / "1700000002").string());
    CHECK(names_in(directory.path()) ==
          Names{"temp-1600000000", "temp-1700000000", "1700000001", "1700000002"});
    CHECK(read_text(directory / "temp-1700000000" / "half") == "half");
  }

  TEST_CASE("publish: after ten waits it gives up") {
    const TempDir directory;
    FakeTime time;
    const auto message = [&] {
      try {
        publish(directory.path(), time);
      } catch (const EnvironmentError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    SUBCASE("of a clock that stands still") {
      write_text(directory / "1700000000" / "model.pt", "first");
      time.stands_still = true;
      CHECK(has(message(), "'1700000000' is taken"));
      CHECK(time.sleeps == 10);
      CHECK(names_in(directory.path()) == Names{"1700000000"});
    }
    SUBCASE("of names that are taken") {
      for (int i = 0; i < 11; ++i) fs::create_directory(directory / text(kFirstSecond + i));
      CHECK(has(message(), "'1700000010' is taken"));
      CHECK(names_in(directory.path()).size() == 11);
    }
    SUBCASE("and not before") {
      for (int i = 0; i < 10; ++i) fs::create_directory(directory / text(kFirstSecond + i));
      CHECK(publish(directory.path(), time) == (directory / "1700000010").string());
    }
  }

  TEST_CASE("publish: what a failed writer left is removed, its exception goes on") {
    const TempDir directory;
    FakeTime time;
    const auto fail = [](const std::string& to) {
      write_text(fs::path(to) / "1/model.pt", "half");
      throw CheckpointError("cannot read the weights.", "try another.");
    };
    CHECK_THROWS_AS(publish(directory.path(), time, fail), CheckpointError);
    CHECK(names_in(directory.path()).empty());
    CHECK_NOTHROW(publish(directory.path(), time));
  }

  TEST_CASE("publish: a base that cannot be a directory is the machine's fault") {
    const TempDir directory;
    write_text(directory / "export", "a file");
    FakeTime time;
    CHECK_THROWS_AS(publish(directory / "export/latest", time), EnvironmentError);
    CHECK_THROWS_AS(publish(directory / "export", time), EnvironmentError);
  }

  TEST_CASE("publish: whatever call fails, nothing half is left or seen") {
    const Silence silence;
    for (int fail_at = 1;; ++fail_at) {
      MemoryFileSystem files;
      UnsyncedModel model(files);
      FakeTime time;
      files.fail_at = fail_at;
      bool failed = true;
      try {
        publish(files, model, time);
        failed = false;
      } catch (const Error&) {
      }
      if (!failed && files.call_count < fail_at) break;
      files.fail_at = 0;
      CAPTURE(files.calls[static_cast<std::size_t>(fail_at) - 1]);
      const bool is_there = files.status("1700000000").has_value();
      CHECK(files.list("").size() == (is_there ? 1U : 0U));
      if (is_there) {
        CHECK(UnsyncedModel::is_whole(files, "1700000000"));
      } else {
        CHECK(failed);
      }
    }
  }

  TEST_CASE("publish: at every crash an export is whole or not there, and there once it returned") {
    MemoryFileSystem files;
    UnsyncedModel model(files);
    FakeTime time;
    bool returned = false;
    int states = 0;
    const std::function<void()> check = [&] {
      files.crash_states([&](std::unique_ptr<MemoryFileSystem> state) {
        ++states;
        if (state->status("1700000000")) {
          CHECK(UnsyncedModel::is_whole(*state, "1700000000"));
        } else {
          CHECK_FALSE(returned);
        }
      });
    };
    files.after_change = check;
    publish(files, model, time);
    returned = true;
    check();
    CHECK(states > 50);
  }

  TEST_CASE("collect: of four exports the two newest stay") {
    const TempDir directory;
    make_exports(directory.path(), {"1500000000", "1500000001", "1500000002", "1500000003"});
    collect(directory.path().string(), 2);
    CHECK(names_in(directory.path()) == Names{"1500000002", "1500000003"});
    CHECK(read_text(directory / "1500000002/1/model.pt") == "1500000002");
  }

  TEST_CASE("collect: a '/' at the end changes nothing") {
    const TempDir directory;
    make_exports(directory.path(), {"1500000000", "1500000001", "1500000002", "1500000003"});
    collect(directory.path().string() + "/", 1);
    CHECK(names_in(directory.path()) == Names{"1500000003"});
  }

  TEST_CASE("collect: the largest numbers stay, and 0 is one") {
    const TempDir directory;
    make_exports(directory.path(), {"0000000008", "0000000009", "0000000010"});
    collect(directory.path().string(), 2);
    CHECK(names_in(directory.path()) == Names{"0000000009", "0000000010"});
    const TempDir other;
    make_exports(other.path(), {"0000000000", "0000000003"});
    collect(other.path().string(), 2);
    CHECK(names_in(other.path()) == Names{"0000000000", "0000000003"});
  }

  TEST_CASE("collect: what is no directory of ten digits is neither counted nor touched") {
    const TempDir directory;
    const TempDir elsewhere;
    write_text(elsewhere / "precious", "precious");
    const Names others = {"150000000",         "15000000000", "temp-1500000000", "150000000x",
                          "temp-removed-1500", "best",        "+500000000",      " 500000000"};
    make_exports(directory.path(), others);
    make_exports(directory.path(), {"1500000000", "1500000001"});
    write_text(directory / "1400000000", "a file");
    write_text(directory / "best.json", "{}");
    fs::create_directory_symlink(elsewhere.path(), directory / "1600000000");
    fs::create_directory_symlink(elsewhere.path(), directory / "1500000000" / "link");
    collect(directory.path().string(), 1);
    Names expected = others;
    expected.insert({"1500000001", "1400000000", "best.json", "1600000000"});
    CHECK(names_in(directory.path()) == expected);
    CHECK(read_text(elsewhere / "precious") == "precious");
  }

  TEST_CASE("collect: one that another process deleted is a warning, the others go") {
    const Silence silence;
    MemoryFileSystem files;
    for (const char* name : {"1500000000", "1500000001", "1500000002"}) {
      files.create_directory(name);
    }
    // The calls so far, the look at the root, the list, and then the first rename fails.
    files.fail_at = files.call_count + 3;
    files.error_number = ENOENT;
    CHECK_NOTHROW(collect_old_exports(files, 1));
    CHECK(files.status("1500000000"));
    CHECK_FALSE(files.status("1500000001"));
    CHECK(files.status("1500000002"));
  }

  TEST_CASE("collect: in a base that is missing there is nothing to remove") {
    const TempDir directory;
    CHECK_NOTHROW(collect((directory / "none").string(), 1));
  }

  TEST_CASE("collect: at every crash an old export is whole or not there") {
    MemoryFileSystem files;
    FakeTime time;
    UnsyncedModel old_model(files);
    publish(files, old_model, time);
    UnsyncedModel new_model(files);
    publish(files, new_model, time);
    files.after_change = [&] {
      files.crash_states([&](std::unique_ptr<MemoryFileSystem> state) {
        CHECK(UnsyncedModel::is_whole(*state, "1700000001"));
        if (state->status("1700000000")) CHECK(UnsyncedModel::is_whole(*state, "1700000000"));
      });
    };
    collect_old_exports(files, 1);
    CHECK(files.list("").size() == 1);
  }
}
