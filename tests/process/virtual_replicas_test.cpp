// Virtual replicas through the real command line: the same bits on any number of workers.
// tests/process/virtual_widths.py runs the wide matrix.
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace virtual_replicas_test {

using nlohmann::json;
using namespace troupe::testing;  // NOLINT: a test

namespace {

/// Everything that a run ends with and that the width must not change.
json ending_of(const ProcessResult& result) {
  const json all = summary(result);
  json ending;
  for (const char* key : {"parameter_hash", "train", "validation", "test", "global_step"}) {
    ending[key] = all.at(key);
  }
  return ending;
}

const Words kNet = {kBuild + "/tests/process/trainings",
                    "virtual_net",
                    "--virtual-replicas",
                    "8",
                    "--batch-size",
                    "40",
                    "--epochs",
                    "2",
                    "--clip-norm",
                    "0.5",
                    "--ema-decay",
                    "0.9",
                    "--lr-schedule",
                    "plateau",
                    "--plateau",
                    "loss:1",
                    "--threads",
                    "1",
                    "--json-summary"};

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("virtual replicas: mnist has one hash on 1, 2 and 3 workers, and on 2 replicas") {
    const Words mnist = kMnist + Words{"--virtual-replicas", "8", "--train-examples", "300",
                                       "--epochs",           "1", "--json-summary"};
    const json expected = ending_of(run_on(1, mnist));
    CHECK(ending_of(run_on(2, mnist + Words{"--transport", "unix"})) == expected);
    CHECK(ending_of(run_on(3, mnist)) == expected);
    CHECK(ending_of(run_on(1, mnist + Words{"--devices", "cpu:0-1"})) == expected);
  }

  TEST_CASE("virtual replicas: dropout, batch norm, Adam, and a width that changes on the way") {
    const json expected = ending_of(run_on(1, kNet));
    CHECK(ending_of(run_on(3, kNet + Words{"--transport", "tcp", "--check-repeat"})) == expected);
    const TempDir dir;
    const Words saving = kNet + Words{"--model-dir", dir.path().string()};
    for (const auto& [workers, steps] : {std::pair(1, "4"), std::pair(3, "5"), std::pair(2, "9")}) {
      CHECK(run_on(workers, saving + Words{"--max-steps", steps}).exit_code == 0);
    }
    json resumed = ending_of(run_on(1, saving));
    CHECK(resumed == expected);
  }
}

}  // namespace virtual_replicas_test
