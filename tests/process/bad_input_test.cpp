// Forty ways to start a program wrongly, through its real command line: the exit code of
// docs/errors.md, one line that names the cause and the fix, and nothing left running.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_process.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

namespace bad_input_test {

using troupe::testing::ProcessOptions;
using troupe::testing::run_process;
using troupe::testing::TempDir;

namespace {

const std::string kMnist = std::string(TROUPE_BINARY_DIR) + "/examples/mnist";

struct BadStart {
  std::vector<std::string> flags;
  std::map<std::string, std::string> variables;
  int exit_code;
  std::string named;  // what the message must name
};

/// Runs the example and checks code, message and shape of the last line.
void check(const BadStart& start) {
  std::vector<std::string> command = {kMnist};
  command.insert(command.end(), start.flags.begin(), start.flags.end());
  std::string shown = start.named + ":";
  for (const auto& word : start.flags) shown += " " + word;
  for (const auto& [name, value] : start.variables) shown += " " + name + "=" + value;
  CAPTURE(shown);
  ProcessOptions options;
  options.set = start.variables;
  options.set["OMP_NUM_THREADS"] = "1";
  const auto result = run_process(command, options);
  CAPTURE(result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code == start.exit_code);
  CHECK(result.out.empty());
  const auto line = result.err.rfind("troupe: error[");
  REQUIRE(line != std::string::npos);
  const std::string message = result.err.substr(line);
  CHECK(message.find(start.named) != std::string::npos);
  CHECK(message.find(" Fix: ") != std::string::npos);
  CHECK(message.find('\n') == message.size() - 1);  // one line, the last one
}

std::string cluster(const std::string& text) { return R"({"cluster":)" + text + "}"; }

std::string with_task(const std::string& workers, const std::string& task) {
  return R"({"cluster":{"worker":)" + workers + R"(},"task":)" + task + "}";
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_SUITE("bad_input") {
  TEST_CASE("bad input: flags") {
    const std::vector<BadStart> starts = {
        {{"--bacth-size", "64"}, {}, 2, "--batch-size"},
        {{"--epochs"}, {}, 2, "--epochs"},
        {{"--epochs", "many"}, {}, 2, "--epochs"},
        {{"--epochs", "1.5"}, {}, 2, "--epochs"},
        {{"--batch-size", "0"}, {}, 2, "--batch-size"},
        {{"--batch-size", "-64"}, {}, 2, "--batch-size"},
        {{"--batch-size", "99999999999999999999"}, {}, 2, "--batch-size"},
        {{"--learning-rate", "nan"}, {}, 2, "--learning-rate"},
        {{"--learning-rate", "0,1"}, {}, 2, "--learning-rate"},
        {{"--max-steps", "0"}, {}, 2, "--max-steps"},
        {{"--seed", "x"}, {}, 2, "--seed"},
        {{"--accumulate", "0"}, {}, 2, "--accumulate"},
        {{"--clip-norm", "-1"}, {}, 2, "--clip-norm"},
        {{"--clip-norm", "inf"}, {}, 2, "--clip-norm"},
        {{"--precision", "float16"}, {}, 2, "--precision"},
        {{"--strategy", "horovod"}, {}, 2, "--strategy"},
        {{"--strategy", "parameter_server"}, {}, 2, "--strategy"},
        {{"--devices", "gpu"}, {}, 2, "--devices"},
        {{"train"}, {}, 2, "train"},
        {{"--config", "does-not-exist.json"}, {}, 2, "does-not-exist.json"},
        {{"--cluster", "does-not-exist.json", "--task", "worker:0"}, {}, 2, "does-not-exist.json"},
        {{"--rank", "2", "--world-size", "2", "--chief-address", "127.0.0.1:2222"},
         {},
         2,
         "--rank"},
        {{"--train-examples", "20000"}, {}, 2, "--train-examples"},
        {{"--devices", "cuda:7"}, {}, 3, "cuda:7"},
        {{"--devices", "cuda:98,cuda:99"}, {}, 3, "--devices cuda:98"},
        {{"--strategy", "parameter_server"}, {}, 2, "has no parameter server"},
        {{"--metrics-file", "/no/such/folder/file"}, {}, 3, "--metrics-file"},
        {{}, {{"TROUPE_EPOCHS", "many"}}, 2, "TROUPE_EPOCHS"},
        {{"--strategy", "multi-worker", "--rank", "0", "--world-size", "2", "--chief-address",
          "10.1.2.3:2222"},
         {},
         2,
         "--secret-file"},
    };
    for (const BadStart& start : starts) check(start);
  }

  TEST_CASE("bad input: TF_CONFIG and other launchers' variables") {
    const std::string two = R"(["127.0.0.1:2222","127.0.0.1:2223"])";
    const auto tf_config = [](const std::string& text) {
      return std::map<std::string, std::string>{{"TF_CONFIG", text}};
    };
    const std::vector<BadStart> starts = {
        {{}, tf_config("{"), 2, "TF_CONFIG"},
        {{}, tf_config("[]"), 2, "TF_CONFIG"},
        {{}, tf_config(cluster(R"({"worker":["127.0.0.1:2222"]})")), 2, "task"},
        {{}, tf_config(with_task(two, R"({"type":"worker","index":2})")), 2, "task.index"},
        {{}, tf_config(with_task(two, R"({"type":"worker","index":-1})")), 2, "task.index"},
        {{}, tf_config(with_task(two, R"({"type":"worker","index":1.5})")), 2, "task.index"},
        {{}, tf_config(with_task(two, R"({"type":"chef","index":0})")), 2, "task.type"},
        {{}, tf_config(with_task(two, R"({"type":"ps","index":0})")), 2, "ps"},
        {{},
         tf_config(with_task(R"(["127.0.0.1:99999"])", R"({"type":"worker","index":0})")),
         2,
         "cluster.worker[0]"},
        {{}, tf_config(with_task("[]", R"({"type":"worker","index":1})")), 2, "task.index"},
        {{},
         tf_config(
             with_task(R"(["127.0.0.1:2222","127.0.0.1:2222"])", R"({"type":"worker","index":0})")),
         2,
         "127.0.0.1:2222"},
        {{}, tf_config(R"({"cluster":{"worker":["a:1"],"worker":["b:1"]}})"), 2, "worker"},
        {{}, {{"RANK", "0"}}, 2, "WORLD_SIZE"},
        {{},
         {{"RANK", "5"},
          {"WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "2222"}},
         2,
         "RANK"},
    };
    for (const BadStart& start : starts) check(start);
  }

  TEST_CASE("bad input: data files") {
    const TempDir empty;
    check({{"--data-dir", (empty / "missing").string()}, {}, 1, "missing"});
    check({{"--data-dir", empty.path().string()}, {}, 1, "train-images"});

    const TempDir dir;
    const std::string sixteen("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c", 16);
    const std::string labels("\0\0\x08\x01\0\0\0\x02\x03\x07", 10);
    const auto use = [&](const std::string& images, const std::string& label_bytes) {
      for (const char* split : {"train", "t10k"}) {
        write(dir / (std::string(split) + "-images-idx3-ubyte"), images);
        write(dir / (std::string(split) + "-labels-idx1-ubyte"), label_bytes);
      }
    };
    const BadStart start{{"--data-dir", dir.path().string()}, {}, 1, "train-images-idx3-ubyte"};
    use("not an IDX file", labels);
    check(start);
    use(sixteen + std::string(1000, 'x'), labels);  // truncated
    check(start);
    use(sixteen + std::string(2000, 'x'), labels);  // bytes left over
    check(start);
    use(std::string("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16), labels);
    check(start);
    use(sixteen + std::string(1568, 'x'), std::string("\0\0\x08\x01\0\0\0\x03\x03\x07\x01", 11));
    check({start.flags, {}, 1, "3"});  // three labels for two images
    use(sixteen + std::string(1568, 'x'), std::string("\0\0\x08\x01\0\0\0\x02\x03\x0b", 10));
    check({start.flags, {}, 1, "11"});  // a label that is no digit
  }

  TEST_CASE("bad input: a port that is taken is named") {
    troupe::testing::LoopbackListener listener;
    const std::string address = "127.0.0.1:" + std::to_string(listener.port());
    check({{"--rank", "0", "--world-size", "2", "--chief-address", address}, {}, 3, address});
  }

  TEST_CASE("bad input: a worker that never comes is named when the start timeout is over") {
    const std::string address = "127.0.0.1:" + std::to_string(troupe::testing::free_port());
    check({{"--rank", "0", "--world-size", "2", "--chief-address", address, "--start-timeout", "1"},
           {},
           138,
           "worker/1"});
  }

  TEST_CASE("bad input: workers of another cluster are refused") {
    const auto port = troupe::testing::free_port();
    const auto other = troupe::testing::free_port();
    const std::string chief = "127.0.0.1:" + std::to_string(port);
    troupe::testing::Process first({kMnist, "--rank", "0", "--world-size", "3", "--chief-address",
                                    chief, "--start-timeout", "30"});
    const std::string tf_config = R"({"cluster":{"worker":[")" + chief + R"(","127.0.0.1:)" +
                                  std::to_string(other) +
                                  R"("]},"task":{"type":"worker","index":1}})";
    check({{}, {{"TF_CONFIG", tf_config}}, 2, "cluster"});
  }
}

}  // namespace bad_input_test
