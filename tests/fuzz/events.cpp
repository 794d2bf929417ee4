// Event files, as early stopping and the best export read them back.
#include <cmath>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "troupe/core/error.h"
#include "troupe/report/event_file.h"
#include "troupe/report/event_message.h"
#include "troupe/report/summary_reader.h"

namespace troupe::fuzz::events_target {
namespace {

enum Kind : unsigned char { file, message, records };
constexpr unsigned kKinds = records + 1;

/// What was decoded is what is decoded again; doubles become floats the first time.
bool run_message(std::string_view input) {
  Event event;
  if (!accepts<DataError>([&] { event = decode_event(input); })) return false;
  const std::string written = encode_scalars(event.step, event.scalars, 1.5);
  const Event again = decode_event(written);
  FUZZ_REQUIRE(again.step == event.step && again.scalars.size() == event.scalars.size());
  FUZZ_REQUIRE(!again.session_start);
  for (std::size_t i = 0; i < event.scalars.size(); ++i) {
    FUZZ_REQUIRE(again.scalars[i].tag == event.scalars[i].tag);
    FUZZ_REQUIRE(std::isnan(again.scalars[i].value) == std::isnan(event.scalars[i].value));
  }
  FUZZ_REQUIRE(encode_scalars(again.step, again.scalars, 1.5) == written);
  const Event start = decode_event(encode_session_start(event.step, 1.5));
  FUZZ_REQUIRE(start.session_start && start.step == event.step && start.scalars.empty());
  return true;
}

bool run_file(std::string_view input) {
  static const testing::TempDir folder;
  static const std::string path = folder / "events.out.tfevents.1700000000.fuzz";
  std::ofstream(path, std::ios::binary) << input;
  // The records, framed again, are the file up to its damage.
  RecordReader reader(path);
  std::string record;
  std::string framed;
  std::size_t count = 0;
  for (; reader.next(record); ++count) {
    FUZZ_REQUIRE(reader.offset() == framed.size());
    framed += frame_record(record);
  }
  FUZZ_REQUIRE(input.substr(0, framed.size()) == framed);
  FUZZ_REQUIRE(reader.damage().empty() == (framed.size() == input.size()));
  const ScalarHistory history = read_scalars(folder.path().string());
  FUZZ_REQUIRE(history.empty() || count > 0);
  return reader.damage().empty();
}

/// Messages of two bytes' length each, in records as they should be.
bool run_records(std::string_view input) {
  std::string framed;
  for (Values values(input); !values.rest().empty();) framed += frame_record(values.text());
  return run_file(framed);
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::vector<std::string> messages = {
      encode_file_version(1.7e9), encode_session_start(100, 1.7e9),
      encode_scalars(101, {{"loss", 0.25}, {"global_step/sec", 1e300}}, 1.7e9),
      encode_text(101, "settings", "--seed 1", 1.7e9),
      // A tensor of one double, as TensorFlow 2 writes a scalar.
      std::string("\x10\x07\x2a\x13\x0a\x11\x0a\x01x\x42\x0c\x08\x02\x32\x08", 15) +
          std::string(8, '\x40')};
  std::string framed;
  std::string lengths;
  std::vector<std::string> made;
  for (const std::string& each : messages) {
    made.push_back(seed(message, each));
    framed += frame_record(each);
    lengths += static_cast<char>(each.size());
    lengths += '\0' + each;
  }
  made.push_back(seed(file, framed));
  made.push_back(seed(records, lengths));
  return made;
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  return kind == file ? run_file(input) : kind == message ? run_message(input) : run_records(input);
}

const Registration registered({"events", seeds, run});

}  // namespace troupe::fuzz::events_target
