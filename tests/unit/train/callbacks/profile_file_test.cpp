// Profiles: workers' clocks are aligned, and the file has what Perfetto reads.
#include "troupe/train/callbacks/profile_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"

using nlohmann::json;
using troupe::Trace;
using troupe::detail::ClockOffset;
using troupe::detail::decode_profile;
using troupe::detail::encode;
using troupe::detail::WorkerProfile;

namespace {

WorkerProfile worker(const std::string& name, const std::string& clock) {
  WorkerProfile made{name, clock, {}, {}};
  made.trace.threads = {"step thread", "bucket thread"};
  made.trace.intervals = {{"train_step", 1'000, 5'000, 0, 0}, {"all_reduce", 2'000, 1'000, 1, 64}};
  return made;
}

json read(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

const json& find(const json& events, const std::string& name, int process) {
  for (const json& event : events) {
    if (event["name"] == name && event["pid"] == process) return event;
  }
  throw std::runtime_error("no event " + name);
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("profile: what is sent is what arrives") {
    WorkerProfile sent = worker("worker/1", "a clock");
    sent.meetings = {{5, 9}, {11, 12}};
    sent.trace.dropped = 3;
    sent.trace.intervals[0].name = "no UTF-8: \xff";
    const WorkerProfile got = decode_profile(encode(sent));
    CHECK(got.process == sent.process);
    CHECK(got.clock == sent.clock);
    CHECK(got.trace.threads == sent.trace.threads);
    CHECK(got.trace.dropped == 3);
    REQUIRE(got.meetings.size() == 2);
    CHECK(got.meetings[1].after == 12);
    REQUIRE(got.trace.intervals.size() == 2);
    CHECK(got.trace.intervals[0].name == sent.trace.intervals[0].name);
    CHECK(got.trace.intervals[1].bytes == 64);
  }

  TEST_CASE("profile: damaged bytes are refused, whichever is damaged") {
    const std::vector<std::byte> whole = encode(worker("worker/1", "a clock"));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CHECK_THROWS_AS((void)decode_profile({whole.data(), size}), troupe::DesyncError);
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::vector<std::byte> damaged = whole;
      damaged[i] ^= std::byte{0x55};
      try {  // it may still be a profile, of other values; never anything else than these two
        for (const auto& interval : decode_profile(damaged).trace.intervals) {
          CHECK(interval.thread < 4);
        }
      } catch (const troupe::DesyncError&) {
      }
    }
  }

  TEST_CASE("profile: the offset of a clock is the middle of what the meetings allow") {
    WorkerProfile chief = worker("worker/0", "here");
    WorkerProfile other = worker("worker/1", "there");
    // The other clock is 1000 ahead; they met at 50 and at 150 of the chief's.
    chief.meetings = {{40, 60}, {148, 156}};
    other.meetings = {{1'045, 1'052}, {1'100, 1'153}};
    const ClockOffset offset = troupe::detail::offset_between(chief, other);
    // At least 1045 - 60 = 985 and 1100 - 156 = 944; at most 1052 - 40 = 1012, 1153 - 148 = 1005.
    CHECK(offset.ns == doctest::Approx(995));
    CHECK(offset.error == doctest::Approx(10));
    CHECK(std::abs(offset.ns - 1'000) <= offset.error);
  }

  TEST_CASE("profile: one clock needs no alignment, unless the meetings contradict its name") {
    WorkerProfile chief = worker("worker/0", "one");
    WorkerProfile other = worker("worker/1", "one");
    chief.meetings = other.meetings = {{40, 60}};
    CHECK(troupe::detail::offset_between(chief, other).error == 0);
    other.meetings = {{1'040, 1'060}};
    CHECK(troupe::detail::offset_between(chief, other).ns == doctest::Approx(1'000));
  }

  TEST_CASE("profile: the file has processes, threads and intervals on the first one's clock") {
    const troupe::testing::TempDir dir;
    WorkerProfile chief = worker("worker/0", "here");
    WorkerProfile other = worker("worker/1", "there");
    chief.meetings = {{0, 0}};
    other.meetings = {{500'000, 500'000}};  // exactly 500 us ahead
    for (auto& interval : other.trace.intervals) interval.start += 500'000 + 250;
    const std::string path = (dir / "new" / "profile.json").string();
    troupe::detail::write_profile(path, {chief, other}, {4, 6});
    const json profile = read(path);
    const json& events = profile["traceEvents"];
    CHECK(find(events, "process_name", 1)["args"]["name"] == "worker/0");
    CHECK(find(events, "process_name", 2)["args"]["name"] == "worker/1");
    CHECK(find(events, "thread_name", 2)["args"]["name"] == "step thread");
    const json& step = find(events, "train_step", 1);
    CHECK(step["ph"] == "X");
    CHECK(step["ts"].get<double>() == doctest::Approx(0));
    CHECK(step["dur"].get<double>() == doctest::Approx(5));
    CHECK(find(events, "train_step", 2)["ts"].get<double>() == doctest::Approx(0.25));
    const json& sum = find(events, "all_reduce", 2);
    CHECK(sum["args"]["bytes"] == 64);
    CHECK(sum["tid"] == 2);
    CHECK(profile["otherData"]["first_step"] == 4);
    CHECK(profile["otherData"]["clocks"][1]["offset_us"].get<double>() == doctest::Approx(500));
  }

  TEST_CASE("profile: a file that cannot be written is named") {
    const troupe::testing::TempDir dir;
    std::ofstream(dir / "file") << "no folder";
    CHECK_THROWS_AS(troupe::detail::write_profile((dir / "file" / "profile.json").string(),
                                                  {worker("worker/0", "here")}, {}),
                    troupe::EnvironmentError);
  }
}
