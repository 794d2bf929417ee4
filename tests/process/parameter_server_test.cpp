// Parameter servers through the real command line: `troupe run --ps` and programs as users write
// them.
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace parameter_server_test {

using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::kMnist;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

nlohmann::json train(int workers, int servers, const Words& program) {
  const Words tool = {kBuild + "/troupe",      "run",  "--workers",
                      std::to_string(workers), "--ps", std::to_string(servers),
                      "--no-prefix",           "--"};
  return summary(run_process(tool + program, {}, kLimit));
}

Words digits(const Words& more) {
  return kMnist + Words{"--strategy", "parameter_server", "--batch-size", "32", "--json-summary"} +
         more;
}

Words linear(const Words& more) {
  return Words{kBuild + "/examples/linear_regression", "--batch-size", "40", "--json-summary"} +
         more;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("parameter servers: synchronous processes end with the bits of mirrored replicas") {
    const Words options = {"--epochs", "2"};
    const auto mirrored =
        summary(run_process(linear(options + Words{"--devices", "cpu:0-1"}), {}, kLimit));
    const auto served = train(2, 2, linear(options + Words{"--staleness-bound", "0"}));
    CHECK(served["strategy"] == "parameter-server");
    CHECK(served["parameter_hash"] == mirrored["parameter_hash"]);
    CHECK(served["global_step"] == 50);
    CHECK(served["test"]["examples"] == 200);
    CHECK(served["parameter_servers"]["staleness"].size() == 1);
  }

  TEST_CASE("parameter servers: asynchronous workers learn with the settings of one device") {
    const auto result = train(3, 2, digits({"--max-steps", "500"}));
    CHECK(result["test"]["accuracy"].get<double>() > 0.9);
  }

  TEST_CASE("parameter servers: a run that has diverged does not end with 0") {
    const Words tool = {kBuild + "/troupe", "run", "--workers", "2", "--ps", "1",
                        "--no-prefix",      "--"};
    // Bounded, the chief takes half of the steps whatever else the machine does: 200 are looked at.
    // Who is first differs from run to run, and now and then one does not diverge: three tries.
    const auto run = [&](const Words& more) {
      troupe::testing::ProcessResult result;
      for (int i = 0; i < 3 && result.err.find("training has diverged") == std::string::npos; ++i) {
        result = run_process(tool + digits(Words{"--max-steps", "500", "--staleness-bound", "1",
                                                 "--learning-rate", "0.5"} +
                                           more),
                             {}, kLimit);
      }
      return result;
    };
    const auto failed = run({});
    CHECK(failed.exit_code == 1);
    CHECK(failed.err.find("error[diverged]: training has diverged: the loss was 2.") !=
          std::string::npos);
    CHECK(failed.err.find("Fix: lower the learning rate or the momentum") != std::string::npos);
    const auto warned = run({"--on-non-finite", "stop"});
    CHECK(warned.exit_code == 0);
    CHECK(warned.err.find("training has diverged") != std::string::npos);
  }

  TEST_CASE("parameter servers: an asynchronous run saves, and goes on without servers") {
    const TempDir dir;
    const Words options = {"--model-dir", dir.path().string()};
    const auto first = train(3, 1, linear(options + Words{"--max-steps", "70"}));
    CHECK(first["global_step"] == 70);
    CHECK(first["parameter_servers"]["updates"] == 70);
    CHECK(first["parameter_servers"]["lost"].empty());
    const auto second =
        summary(run_process(linear(options + Words{"--max-steps", "100"}), {}, kLimit));
    CHECK(second["strategy"] == "one-device");
    CHECK(second["global_step"] == 100);
    CHECK(second["test"]["loss"].get<double>() < first["test"]["loss"].get<double>());
  }

  TEST_CASE("parameter servers: a worker that dies before training begins is not waited for") {
    // By default it would be waited for 300 seconds, as long as one that may still come.
    const TempDir dir;
    const Words program =
        linear({"--staleness-bound", "0", "--max-steps", "20", "--model-dir", dir.path().string()});
    Words dies = {"sh", "-c", "if [ \"$TROUPE_RANK\" = 2 ]; then kill -9 $$; fi; exec \"$@\"",
                  "sh"};
    const auto result = train(3, 2, dies + program);
    CHECK(result["global_step"] == 20);
    CHECK((result["parameter_servers"]["lost"] == nlohmann::json{"worker/2 at step 0"}));
    const auto resumed = train(3, 2, dies + program + Words{"--max-steps", "30"});
    CHECK((resumed["parameter_servers"]["lost"] == nlohmann::json{"worker/2 at step 20"}));
    const auto asynchronous = train(3, 2, dies + linear({"--max-steps", "60"}));
    CHECK(asynchronous["global_step"] == 60);
    CHECK((asynchronous["parameter_servers"]["lost"] == nlohmann::json{"worker/2 at step 0"}));
  }

  TEST_CASE("parameter servers: a worker that dies before training begins and is started again") {
    const TempDir dir;
    const std::string once = (dir.path() / "once").string();
    const Words dies = {
        "sh", "-c",
        "if [ \"$TROUPE_RANK\" = 2 ] && mkdir " + once + "; then kill -9 $$; fi; exec \"$@\"",
        "sh"};
    const Words tool = {kBuild + "/troupe",  "run", "--workers", "3", "--ps", "1", "--no-prefix",
                        "--restart-workers", "1",   "--"};
    const auto result = summary(run_process(
        tool + dies + linear({"--staleness-bound", "0", "--max-steps", "20"}), {}, kLimit));
    CHECK(result["global_step"] == 20);
    CHECK(result["parameter_servers"]["lost"].empty());
  }

  TEST_CASE("parameter servers: train_and_evaluate and a loop of verbs have servers, too") {
    const TempDir dir;
    const auto evaluated =
        train(2, 1,
              linear({"--mode", "train_and_evaluate", "--model-dir", dir.path().string(),
                      "--max-steps", "30", "--throttle-secs", "0"}));
    CHECK(evaluated["evaluation"]["global_step"] == 30);
    const auto own = train(2, 1,
                           kMnist + Words{"--train-examples", "600", "--batch-size", "100",
                                          "--epochs", "1", "--json-summary"});
    CHECK(own["strategy"] == "parameter-server");
    CHECK(own["global_step"].get<int>() >= 3);
  }
}

}  // namespace parameter_server_test
