// Streams through the real command line: the same bits on any number of workers and loader threads,
// and after a kill. tests/process/stream_memory.py trains on a file four times as large as the
// memory of its control group.
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace stream_test {

using nlohmann::json;
using namespace troupe::testing;  // NOLINT: a test

namespace {

constexpr std::int64_t kValues = 64;  // of a record

/// A file of `records` records, whose first value is the sum of some others.
std::string records_in(const TempDir& dir, std::int64_t records) {
  const std::string path = (dir.path() / "records").string();
  std::ofstream out(path, std::ios::binary);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < records; ++i) {
    std::vector<float> record(kValues);
    for (float& value : record) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
    }
    record[0] = record[1] + record[2] - record[3];
    out.write(reinterpret_cast<const char*>(record.data()), kValues * 4);
  }
  return path;
}

json ending_of(const ProcessResult& result) {
  const json all = summary(result);
  json ending;
  for (const char* key : {"parameter_hash", "train", "validation", "global_step"}) {
    ending[key] = all.at(key);
  }
  return ending;
}

Words stream_net(const std::string& records) {
  return {kBuild + "/tests/process/trainings",
          "stream_net",
          "--records",
          records,
          "--virtual-replicas",
          "6",
          "--batch-size",
          "60",
          "--epochs",
          "2",
          "--threads",
          "1",
          "--learning-rate",
          "0.01",
          "--json-summary"};
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("stream: one hash on 1, 2 and 3 workers, any loader threads, and after kill -9") {
    const TempDir dir;
    const Words command = stream_net(records_in(dir, 1015));  // 21 blocks, 17 steps, the last of 55
    const Words four{"--loader-threads", "4"};
    const json expected = ending_of(run_on(1, command));
    CHECK(expected["global_step"] == 34);
    CHECK(expected["train"]["examples"] == 1015);
    CHECK(ending_of(run_on(1, command + four)) == expected);
    CHECK(ending_of(run_on(2, command + four)) == expected);
    CHECK(ending_of(run_on(3, command)) == expected);

    const Words saving =
        command + Words{"--model-dir", (dir.path() / "run").string(), "--save-every", "3"};
    ProcessOptions deadly;
    deadly.set["TEST_DEADLY_BLOCK"] = "14";
    for (int kill = 0; kill < 2; ++kill) {
      CHECK(run_process(saving, deadly, kLimit).exit_code != 0);
    }
    json resumed = ending_of(run_on(2, saving + four));
    CHECK(resumed["parameter_hash"] == expected["parameter_hash"]);
    CHECK(resumed["validation"] == expected["validation"]);
    CHECK(resumed["global_step"] == 34);
  }

  TEST_CASE("stream: of unknown length, with steps in place of epochs, and stopped at an end") {
    const TempDir dir;
    const Words command = stream_net(records_in(dir, 1015)) +
                          Words{"--no-counted", "--model-dir", (dir.path() / "run").string()};
    const json expected =
        ending_of(run_on(1, stream_net((dir.path() / "records").string()) + Words{"--no-counted"}));
    CHECK(expected["global_step"] == 34);
    for (const char* steps : {"16", "17", "18", "33"}) {
      CHECK(ending_of(run_on(1, command + Words{"--max-steps", steps}))["global_step"] ==
            std::stoi(steps));
    }
    json resumed = ending_of(run_on(3, command));
    CHECK(resumed["parameter_hash"] == expected["parameter_hash"]);
    CHECK(resumed["global_step"] == 34);
  }

  TEST_CASE("stream: parameter servers and a cosine without a length refuse it") {
    const TempDir dir;
    const std::string records = records_in(dir, 100);
    const Words command = {kBuild + "/tests/process/trainings", "stream_net", "--records", records};
    const auto cosine = run_process(command + Words{"--lr-schedule", "cosine"}, {}, kLimit);
    CHECK(cosine.exit_code == 2);
    CHECK(cosine.err.find("decay") != std::string::npos);
    const auto served =
        run_process(Words{kBuild + "/troupe", "run", "--workers", "1", "--ps", "1", "--"} + command,
                    {}, kLimit);
    CHECK(served.exit_code == 2);
    CHECK((served.out + served.err).find("stream with parameter servers") != std::string::npos);
  }
}

}  // namespace stream_test
