// Event files, read by a program that shares nothing with the writer: tests/interop/read_events.py.
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/summaries/summary_samples.h"
#include "troupe/report/event_file.h"

using namespace troupe::testing;  // NOLINT: a test

TEST_SUITE("summaries") {
  TEST_CASE("event_file: Python reads what was written") {
    if (run_process({"python3", "-c", ""}).exit_code != 0) {
      MESSAGE("skipped: python3 does not run here");
      return;
    }
    const TempDir dir;
    troupe::EventFile file(dir.path().string(), 1700000000.5);
    file.write(troupe::encode_session_start(100, 1700000001));
    file.write(
        troupe::encode_scalars(100, {{"loss", 0.25}, {"global_step/sec", -150}}, 1700000002));
    file.write(troupe::encode_text(100, "checkpoint_path", "model.ckpt-100", 1700000003));
    // Numbers of several bytes in every length: a step beyond 32 bits, a text beyond 127 bytes.
    const std::string long_text(1000, 'x');
    file.write(troupe::encode_text(5000000000, "long", long_text, 1700000004));
    file.write(troupe::encode_scalars(5000000000, {{std::string(300, 'n'), 1e30}}, 1700000005));
    file.write(troupe::encode_scalars(5000000001, {{"a", 1e300}, {"b", std::nan("")}}, 1700000006));
    const std::vector<float> values = {-1, 0, 0.25F, 3};
    file.write(troupe::encode_histogram(7, "w", troupe::make_histogram(values, 2), 1700000007));
    file.write(
        troupe::encode_image(8, "digits", kTinyPng, *troupe::png_size(kTinyPng), 1700000008));
    const ProcessResult result = run_process(
        {"python3", "-B", TROUPE_SOURCE_DIR "/tests/interop/read_events.py", file.path()});
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out ==
          "version brain.Event:2\n"
          "session_start 100\n"
          "scalar 100 loss 0.25\n"
          "scalar 100 global_step/sec -150.0\n"
          "text 100 checkpoint_path 'model.ckpt-100'\n"
          "text 5000000000 long '" +
              long_text + "'\nscalar 5000000000 " + std::string(300, 'n') +
              " 1.0000000150474662e+30\n"
              "scalar 5000000001 a inf\n"
              "scalar 5000000001 b nan\n"
              "histogram 7 w -1.0 3.0 2.25 10.0625 [(1.0, 3.0), (3.0, 1.0)]\n"
              "image 8 digits 2x3 33 bytes\n");
  }
}
