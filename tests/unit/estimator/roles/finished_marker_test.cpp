// The chief's marker: there and back, over a loss of power, and when it is damaged.
#include "troupe/train/evaluation/finished_marker.h"

#include <algorithm>
#include <memory>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/train/memory_file_system.h"
#include "troupe/core/failure.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using troupe::CheckpointError;
using troupe::Finished;
using troupe::Span;

const Finished kEarly{340, {600, std::nullopt}, "early stopping: loss did not fall"};

bool same(const Finished& a, const Finished& b) {
  return a.step == b.step && a.goal == b.goal && a.reason == b.reason;
}

void put(MemoryFileSystem& files, const std::string& content) {
  const auto writer = files.create_file(troupe::kFinishedName);
  writer->write(troupe::as_bytes(Span<const char>(content.data(), content.size())));
  writer->close();
}

std::string content_of(MemoryFileSystem& files) {
  const auto bytes = files.read_file(troupe::kFinishedName, 1 << 20);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_SUITE("train/evaluation") {
  TEST_CASE("finished_marker: what was written is read, and replaces the former") {
    MemoryFileSystem files;
    CHECK_FALSE(troupe::read_finished(files).has_value());
    for (const Finished& finished :
         {kEarly, Finished{0, {}, "the input has ended"}, Finished{7, {std::nullopt, 3}, "\"ü\n"},
          Finished{INT64_MAX, {INT64_MAX, 1}, ""}}) {
      troupe::write_finished(files, finished);
      const auto read = troupe::read_finished(files);
      REQUIRE(read.has_value());
      CHECK(same(*read, finished));
    }
    CHECK(files.list("").size() == 1);
  }

  TEST_CASE("finished_marker: cleared, it is not there, and where none is nothing happens") {
    MemoryFileSystem files;
    troupe::clear_finished(files);
    troupe::write_finished(files, kEarly);
    troupe::clear_finished(files);
    CHECK_FALSE(troupe::read_finished(files).has_value());
    files.crash_states([](std::unique_ptr<MemoryFileSystem> after) {
      CHECK_FALSE(troupe::read_finished(*after).has_value());
    });
  }

  TEST_CASE("finished_marker: goals are equal in both parts or not at all") {
    using Goal = troupe::TrainingGoal;
    CHECK(Goal{} == Goal{});
    CHECK(Goal{600, 5} == Goal{600, 5});
    CHECK_FALSE(Goal{600, 5} == Goal{601, 5});
    CHECK_FALSE(Goal{600, 5} == Goal{600, 6});
    CHECK_FALSE(Goal{600, {}} == Goal{{}, 600});
  }

  TEST_CASE("finished_marker: a loss of power leaves the old one or the new one, whole") {
    MemoryFileSystem files;
    const Finished old{100, {100, std::nullopt}, "max_steps reached"};
    troupe::write_finished(files, old);
    int seen = 0;
    files.after_change = [&] {
      files.crash_states([&](std::unique_ptr<MemoryFileSystem> after) {
        const auto read = troupe::read_finished(*after);
        const bool whole = read && (same(*read, old) || same(*read, kEarly));
        CHECK(whole);
        troupe::write_finished(*after, kEarly);  // what is left over is no obstacle
        ++seen;
      });
    };
    troupe::write_finished(files, kEarly);
    CHECK(seen > 20);
    files.crash_states([](std::unique_ptr<MemoryFileSystem> after) {
      const auto read = troupe::read_finished(*after);
      const bool is_new = read && same(*read, kEarly);
      CHECK(is_new);  // durable once it has returned
    });
  }

  TEST_CASE("finished_marker: a failed write is an error and the former one stays") {
    for (int call = 1;; ++call) {
      MemoryFileSystem files;
      const Finished old{100, {100, std::nullopt}, "max_steps reached"};
      troupe::write_finished(files, old);
      files.fail_at = files.call_count + call;
      try {
        troupe::write_finished(files, kEarly);
        CHECK(call > 6);  // stat, create, write, fsync, close, rename, fsync-dir
        break;
      } catch (const CheckpointError&) {
      }
      const auto read = troupe::read_finished(files);
      REQUIRE(read.has_value());
      CHECK(same(*read, call < 7 ? old : kEarly));
    }
  }

  TEST_CASE("finished_marker: one that is damaged in any way is ignored with a warning") {
    MemoryFileSystem good;
    troupe::write_finished(good, kEarly);
    const std::string whole = content_of(good);
    const auto with = [&](const std::string& from, const std::string& to) {
      std::string changed = whole;
      const auto at = changed.find(from);
      REQUIRE(at != std::string::npos);
      return changed.replace(at, from.size(), to);
    };
    const std::pair<const char*, std::string> rows[] = {
        {"empty", ""},
        {"cut in half", whole.substr(0, whole.size() / 2)},
        {"zeros", std::string(whole.size(), '\0')},
        {"followed by more", whole + "x"},
        {"another type", "[1, 2]"},
        {"null", "null"},
        {"another format", with("troupe-finished", "troupe-checkpoint-index")},
        {"another version", with("\"version\": 1", "\"version\": 2")},
        {"no step", with("\"step\"", "\"stop\"")},
        {"a step below 0", with("340", "-1")},
        {"a step that is no whole number", with("340", "340.5")},
        {"a step as text", with("340", "\"340\"")},
        {"a step beyond 64 bits", with("340", "18446744073709551615")},
        {"two steps", with("\"step\"", "\"step\": 1, \"step\"")},
        {"no goal", with("\"goal\"", "\"gaol\"")},
        {"a max_steps of 0", with("600", "0")},
        {"a max_steps that is a truth", with("600", "true")},
        {"no epochs", with("\"epochs\"", "\"epoch\"")},
        {"a reason that is a number", with("\"early stopping: loss did not fall\"", "5")},
        {"not UTF-8", with("early", "\xff")},
        {"too long", whole + std::string(70000, ' ')},
        {"too deep", std::string(100, '[')},
    };
    for (const auto& [what, content] : rows) {
      CAPTURE(what);
      MemoryFileSystem files;
      put(files, content);
      const CapturedLog log;
      CHECK_FALSE(troupe::read_finished(files).has_value());
      CHECK(log.count(" W ") == 1);
      CHECK(log.has("finished.json"));
      troupe::write_finished(files, kEarly);
      CHECK(troupe::read_finished(files).has_value());
    }
  }

  TEST_CASE("finished_marker: one that cannot be read is ignored with a warning") {
    MemoryFileSystem files;
    SUBCASE("the disk fails") {
      troupe::write_finished(files, kEarly);
      files.fail_at = files.call_count + 2;
    }
    SUBCASE("cleared between the look and the read") {
      troupe::write_finished(files, kEarly);
      files.fail_at = files.call_count + 2;
      files.error_number = ENOENT;
    }
    const CapturedLog log;
    CHECK_FALSE(troupe::read_finished(files).has_value());
    CHECK(log.count(" W ") == 1);
  }

  TEST_CASE("finished_marker: what could not be read back is not written") {
    MemoryFileSystem files;
    CHECK_THROWS_AS(troupe::write_finished(files, {1, {}, std::string(70000, 'x')}),
                    CheckpointError);
    CHECK_THROWS_AS(troupe::write_finished(files, {1, {}, "\xff"}), CheckpointError);
    CHECK(files.list("").empty());
  }
}
