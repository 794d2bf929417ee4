// Reading scalars back: what was written, what another writer wrote, and damaged files.
#include "troupe/report/summary_reader.h"

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/core/error.h"
#include "troupe/report/event_file.h"
#include "troupe/report/event_message.h"
#include "troupe/report/protobuf_wire.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
namespace fs = std::filesystem;
using troupe::EventFile;
using troupe::frame_record;
using troupe::read_scalars;
using troupe::ScalarHistory;
using troupe::WireWriter;

constexpr const char* kName = "events.out.tfevents.1700000000.machine.1.0";

/// A message with one field, which is text or a message itself.
std::string wrap(std::uint32_t field, const std::string& content) {
  WireWriter writer;
  writer.put_bytes(field, content);
  return writer.message();
}

/// An event of step 7 with one value, whose message is `value`.
std::string event_with(const std::string& value) {
  WireWriter writer;
  writer.put_integer(2, 7);
  writer.put_bytes(5, wrap(1, value));
  return writer.message();
}

ScalarHistory history_of(const fs::path& directory, const std::string& content) {
  replace(directory / kName, content);
  return read_scalars(directory.string());
}

/// A file, and after each of its records what is known then.
struct Sample {
  std::string content;
  std::vector<std::size_t> ends;       // of the records
  std::vector<ScalarHistory> history;  // [i]: after i records

  Sample() {
    const TempDir dir;
    EventFile file(dir.path().string(), kNow);
    history.emplace_back();
    const auto done = [&](const ScalarHistory& known) {
      ends.push_back(fs::file_size(file.path()));
      history.push_back(known);
    };
    done({});
    file.write(troupe::encode_scalars(1, {{"loss", 4}, {"accuracy", 0.5}}, kNow));
    done({{1, {{"loss", 4}, {"accuracy", 0.5}}}});
    file.write(troupe::encode_scalars(2, {{"loss", 3}}, kNow));
    done({{1, {{"loss", 4}, {"accuracy", 0.5}}}, {2, {{"loss", 3}}}});
    file.write(troupe::encode_session_start(2, kNow));
    done({{1, {{"loss", 4}, {"accuracy", 0.5}}}});
    file.write(troupe::encode_text(2, "note", "text", kNow));
    done({{1, {{"loss", 4}, {"accuracy", 0.5}}}});
    file.write(troupe::encode_scalars(3, {{"loss", 2}}, kNow));
    done({{1, {{"loss", 4}, {"accuracy", 0.5}}}, {3, {{"loss", 2}}}});
    content = content_of(file.path());
  }

  /// What is known from the records that end within the first `bytes` bytes.
  [[nodiscard]] const ScalarHistory& known_from(std::size_t bytes) const {
    std::size_t records = 0;
    while (records < ends.size() && ends[records] <= bytes) ++records;
    return history[records];
  }
};

}  // namespace

TEST_SUITE("summaries") {
  TEST_CASE("summary_reader: a directory that is missing or has no event file gives nothing") {
    const TempDir dir;
    CHECK(read_scalars((dir / "none").string()).empty());
    replace(dir / "notes.txt", "not an event file");
    fs::create_directory(dir / "tfevents");
    CHECK(read_scalars(dir.path().string()).empty());
    replace(dir / kName, "");
    CHECK(read_scalars(dir.path().string()).empty());
    CHECK_THROWS_AS((void)read_scalars((dir / "notes.txt").string()), troupe::EnvironmentError);
  }

  TEST_CASE("summary_reader: scalars are read as they were written") {
    const TempDir dir;
    EventFile file(dir.path().string(), kNow);
    file.write(troupe::encode_scalars(10, {{"loss", 0.5}, {"global_step/sec", 150}}, kNow));
    file.write(troupe::encode_scalars(20, {{"loss", 0.25}}, kNow));
    file.write(troupe::encode_scalars(20, {{"loss", 0.125}}, kNow));
    file.write(troupe::encode_text(30, "checkpoint_path", "model.ckpt-30", kNow));
    CHECK(read_scalars(dir.path().string()) ==
          ScalarHistory{{10, {{"loss", 0.5}, {"global_step/sec", 150}}}, {20, {{"loss", 0.125}}}});
  }

  TEST_CASE("summary_reader: a session start forgets its step and later ones of older files") {
    const TempDir dir;
    const std::string directory = dir.path().string();
    {
      EventFile older(directory, kNow);
      for (const int step : {10, 20, 30})
        older.write(troupe::encode_scalars(step, {{"loss", 1.0 * step}}, kNow));
    }
    // Made in the same second, after a quick restart.
    EventFile newer(directory, kNow);
    newer.write(troupe::encode_session_start(20, kNow));
    newer.write(troupe::encode_scalars(25, {{"loss", 5}}, kNow));
    CHECK(read_scalars(directory) == ScalarHistory{{10, {{"loss", 10}}}, {25, {{"loss", 5}}}});
  }

  TEST_CASE("summary_reader: files are taken by the time in their names, not by their names") {
    const TempDir dir;
    const auto write = [&dir](const std::string& name, double value) {
      replace(dir / name, frame_record(troupe::encode_scalars(1, {{"loss", value}}, kNow)));
    };
    write("a.tfevents.20", 2);
    write("b.tfevents.9", 1);
    CHECK(read_scalars(dir.path().string()) == ScalarHistory{{1, {{"loss", 2}}}});
    write("other.tfevents", 0);  // no time: before all others
    CHECK(read_scalars(dir.path().string()) == ScalarHistory{{1, {{"loss", 2}}}});
    write("a.tfevents.99999999999999999999999", 3);
    CHECK(read_scalars(dir.path().string()) == ScalarHistory{{1, {{"loss", 3}}}});
  }

  TEST_CASE("summary_reader: tensors of one number are scalars, others are not") {
    const TempDir dir;
    const auto read = [&dir](const std::string& tensor) {
      return history_of(dir.path(), frame_record(event_with(wrap(1, "x") + wrap(8, tensor))));
    };
    const std::string half("\x00\x00\x00\x3F", 4);
    const std::string quarter("\x00\x00\x00\x00\x00\x00\xD0\x3F", 8);
    const std::string float_type("\x08\x01");
    const std::string double_type("\x08\x02");
    const std::string dimension = wrap(2, wrap(2, "\x08\x01"));
    CHECK(read(float_type + wrap(5, half)) == ScalarHistory{{7, {{"x", 0.5}}}});
    CHECK(read(float_type + "\x2D" + half) == ScalarHistory{{7, {{"x", 0.5}}}});
    CHECK(read(float_type + wrap(4, half)) == ScalarHistory{{7, {{"x", 0.5}}}});
    CHECK(read(float_type + wrap(2, "") + wrap(5, half)) == ScalarHistory{{7, {{"x", 0.5}}}});
    CHECK(read(double_type + wrap(6, quarter)) == ScalarHistory{{7, {{"x", 0.25}}}});
    CHECK(read(double_type + "\x31" + quarter) == ScalarHistory{{7, {{"x", 0.25}}}});
    CHECK(read(double_type + wrap(4, quarter)) == ScalarHistory{{7, {{"x", 0.25}}}});

    CHECK(read(float_type).empty());
    CHECK(read(float_type + wrap(5, half + half)).empty());
    CHECK(read(float_type + wrap(5, half) + wrap(5, half)).empty());
    CHECK(read(float_type + dimension + wrap(5, half)).empty());
    CHECK(read(double_type + wrap(5, half)).empty());
    CHECK(read(wrap(5, half)).empty());
  }

  TEST_CASE("summary_reader: fields that it does not know are passed over") {
    const TempDir dir;
    const std::string half("\x15\x00\x00\x00\x3F", 5);
    const std::string unknown =
        std::string("\xA0\x06\x01\xA5\x06zzzz\xA1\x06zzzzzzzz", 19) + wrap(100, "unknown");
    const std::string value = unknown + wrap(1, "x") + unknown + half + unknown;
    const std::string event = unknown + event_with(value) + unknown + wrap(4, "graph");
    CHECK(history_of(dir.path(), frame_record(event)) == ScalarHistory{{7, {{"x", 0.5}}}});
    // Events without scalars leave nothing behind, not even their step.
    CHECK(history_of(dir.path(), frame_record(event_with(wrap(1, "image") + wrap(4, "")))).empty());
    // A session log that is no start (3: a checkpoint was saved).
    CHECK(history_of(dir.path(), frame_record(event) + frame_record(wrap(7, "\x08\x03"))) ==
          ScalarHistory{{7, {{"x", 0.5}}}});
  }

  TEST_CASE("summary_reader: a message that is none is left out, the records after it are read") {
    const TempDir dir;
    const Silence silence;
    const std::string good = troupe::encode_scalars(1, {{"loss", 1}}, kNow);
    const std::string other = troupe::encode_scalars(2, {{"loss", 2}}, kNow);
    const ScalarHistory both{{1, {{"loss", 1}}}, {2, {{"loss", 2}}}};
    // A value that ends early within a whole summary: nothing of that record counts.
    WireWriter broken;
    broken.put_integer(2, 3);
    broken.put_bytes(5,
                     wrap(1, wrap(1, "x") + std::string("\x15\x00\x00\x00\x3F", 5)) + "\x0A\x09x");
    for (const std::string& bad : {broken.message(), std::string("\xFF"), std::string("\x0B")}) {
      CHECK(history_of(dir.path(), frame_record(good) + frame_record(bad) + frame_record(other)) ==
            both);
    }
    for (std::size_t length = 0; length < good.size(); ++length) {
      const ScalarHistory read =
          history_of(dir.path(), frame_record(good.substr(0, length)) + frame_record(other));
      CHECK(read.at(2) == both.at(2));
    }
  }

  TEST_CASE("summary_reader: a file cut anywhere keeps its whole records and no more") {
    const Sample sample;
    REQUIRE(sample.known_from(sample.content.size()).size() == 2);
    const TempDir dir;
    const Silence silence;
    for (std::size_t length = 0; length <= sample.content.size(); ++length) {
      CAPTURE(length);
      REQUIRE(history_of(dir.path(), sample.content.substr(0, length)) ==
              sample.known_from(length));
    }
  }

  TEST_CASE("summary_reader: a file with any bit flipped keeps what is before and no more") {
    const Sample sample;
    const TempDir dir;
    const Silence silence;
    for (std::size_t bit = 0; bit < sample.content.size() * 8; ++bit) {
      CAPTURE(bit);
      std::string flipped = sample.content;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      REQUIRE(history_of(dir.path(), flipped) == sample.known_from(bit / 8));
    }
  }

  TEST_CASE("summary_reader: files after a damaged one are read") {
    const TempDir dir;
    const Silence silence;
    const Sample sample;
    replace(dir / kName, sample.content.substr(0, sample.ends[1] + 5));
    replace(dir / "events.out.tfevents.1700000001.machine.1.0",
            frame_record(troupe::encode_scalars(9, {{"loss", 9}}, kNow)));
    CHECK(read_scalars(dir.path().string()) ==
          ScalarHistory{{1, {{"loss", 4}, {"accuracy", 0.5}}}, {9, {{"loss", 9}}}});
  }

  TEST_CASE("summary_reader: messages of random bytes are read or refused, never a crash") {
    std::mt19937 random(1);
    int refused = 0;
    const std::string start = troupe::encode_scalars(3, {{"loss", 3}, {"x", 1}}, kNow);
    for (int i = 0; i < 5000; ++i) {
      std::string message = start.substr(0, random() % (start.size() + 1));
      for (unsigned changes = 1 + random() % 4; changes > 0 && !message.empty(); --changes) {
        message[random() % message.size()] = static_cast<char>(random());
      }
      try {
        (void)troupe::decode_event(message);
      } catch (const troupe::DataError&) {
        ++refused;
      }
    }
    CHECK(refused > 500);
    CHECK(refused < 5000);
  }
}
