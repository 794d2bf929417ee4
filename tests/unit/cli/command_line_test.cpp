#include "troupe/cli/command_line.h"

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"

namespace command_line_test {

using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::Words;

namespace {

struct BadLine {
  Words arguments;
  std::string names;  // what the message must name
  std::string says;   // and what it must say
};

const std::vector<BadLine> kBadLines = {
    {{"--bacth-size", "64"}, "unknown flag --bacth-size", "did you mean --batch-size?"},
    {{"--epoch=3"}, "unknown flag --epoch", "did you mean --epochs?"},
    {{"--max_step", "3"}, "--max_step", "did you mean --max-steps?"},
    {{"--lerning-rate", "3"}, "--lerning-rate", "did you mean --learning-rate?"},
    {{"--no-progres"}, "--no-progres", "did you mean --no-progress?"},
    {{"--zebra"}, "unknown flag --zebra", "see --help"},
    {{"--Epochs", "3"}, "unknown flag --Epochs", "did you mean --epochs?"},
    {{"--epochs"}, "--epochs", "needs a value"},
    {{"--epochs="}, "--epochs", "needs a value"},
    {{"--rank", "--epochs", "3"}, "--rank", "needs a value"},
    {{"--learning_rate"}, "--learning_rate", "needs a value"},
    {{"--lr", "1"}, "unknown flag --lr", "give --learning-rate"},
    {{"train"}, "\"train\"", "unexpected argument"},
    {{"--epochs", "3", "4"}, "\"4\"", "unexpected argument"},
    {{"-x"}, "\"-x\"", "two dashes"},
    {{"-epochs", "3"}, "\"-epochs\"", "two dashes"},
    {{""}, "\"\"", "unexpected argument"},
    {{"--epochs", "0"}, "--epochs", "at least 1"},
    {{"--epochs", "-1"}, "--epochs", "at least 1"},
    {{"--epochs", "1.5"}, "--epochs", "whole number"},
    {{"--epochs", "1e3"}, "--epochs", "whole number"},
    {{"--epochs", "3x"}, "--epochs", "whole number"},
    {{"--epochs", " 3"}, "--epochs", "whole number"},
    {{"--epochs", "+3"}, "--epochs", "whole number"},
    {{"--epochs", "0x10"}, "--epochs", "whole number"},
    {{"--epochs", "9223372036854775808"}, "--epochs", "whole number"},
    {{"--max-steps", "0"}, "--max-steps", "at least 1"},
    {{"--batch-size", "0"}, "--batch-size", "at least 1"},
    {{"--mode", "test"}, "--mode", "train-and-evaluate, evaluate, predict or export"},
    {{"--profile", "-1"}, "--profile", "at least 0"},
    {{"--dry-run", "--mode", "evaluate", "--model-dir", "d"}, "--dry-run", "does not train"},
    {{"--save-summary-steps", "-1"}, "--save-summary-steps", "at least 0"},
    {{"--save-every", "-1"}, "--save-every", "90s, 10m or 2h"},
    {{"--save-every", "10x"}, "--save-every", "90s, 10m or 2h"},
    {{"--save-every", "0s"}, "--save-every", "90s, 10m or 2h"},
    {{"--save-every", "s"}, "--save-every", "90s, 10m or 2h"},
    {{"--save-every", ""}, "--save-every", "90s, 10m or 2h"},
    {{"--on-non-finite", "skip"}, "--on-non-finite", "give fail or stop"},
    {{"--check-weights-every", "-1"}, "--check-weights-every", "at least 0"},
    {{"--eval-steps", "-1"}, "--eval-steps", "at least 0"},
    {{"--eval-name", ""}, "--eval-name", "the first a letter or digit"},
    {{"--eval-name", "../x"}, "--eval-name", "the first a letter or digit"},
    {{"--eval-name", "a/b"}, "--eval-name", "letters, digits"},
    {{"--eval-name", std::string(101, 'a')}, "--eval-name", "at most 100"},
    {{"--start-delay-secs", "-1"}, "--start-delay-secs", "from 0 to"},
    {{"--throttle-secs", "-1"}, "--throttle-secs", "from 0 to"},
    {{"--throttle-secs", "1e9"}, "--throttle-secs", "30 days"},
    {{"--idle-timeout-secs", "0"}, "--idle-timeout-secs", "greater than 0"},
    {{"--exporter", "newest"}, "--exporter", "latest, final, best or onnx"},
    {{"--exporter", "latest,"}, "--exporter", "or none"},
    {{"--exporter", "best,latest,best"}, "--exporter", "name best once"},
    {{"--exporter", "none,best"}, "--exporter", "latest, final, best or onnx"},
    {{"--best", ""}, "--best", "METRIC:min or METRIC:max"},
    {{"--best", ":max"}, "--best", "METRIC:min or METRIC:max"},
    {{"--early-stopping", "loss"}, "--early-stopping", "METRIC:STEPS"},
    {{"--early-stopping", "loss:0"}, "--early-stopping", "METRIC:STEPS"},
    {{"--early-stopping", "loss:5,"}, "--early-stopping", "METRIC:STEPS"},
    {{"--early-stopping", "loss=nan"}, "--early-stopping", "METRIC=VALUE"},
    {{"--checkpoint", "/m"}, "--checkpoint", ".../model.ckpt-1200"},
    {{"--checkpoint", "/m/model.ckpt-"}, "--checkpoint", ".../model.ckpt-1200"},
    {{"--checkpoint", "/m/model.ckpt-1x"}, "--checkpoint", ".../model.ckpt-1200"},
    {{"--checkpoint", "/model.ckpt-1/x"}, "--checkpoint", ".../model.ckpt-1200"},
    {{"--predict-keys", "a,,b"}, "--predict-keys", "commas"},
    {{"--predict-keys", "a,a"}, "--predict-keys", "name a once"},
    {{"--predict-examples", "-1"}, "--predict-examples", "at least 0"},
    {{"--export-dir", ""}, "--export-dir", "give a value"},
    {{"--seed", "-1"}, "--seed", "at least 0"},
    {{"--seed", "18446744073709551616"}, "--seed", "at least 0"},
    {{"--learning-rate", "nan"}, "--learning-rate", "greater than 0"},
    {{"--learning-rate", "inf"}, "--learning-rate", "greater than 0"},
    {{"--learning-rate", "1e999"}, "--learning-rate", "greater than 0"},
    {{"--learning-rate", "0,01"}, "--learning-rate", "greater than 0"},
    {{"--learning-rate", "0"}, "--learning-rate", "greater than 0"},
    {{"--learning-rate", "-0.1"}, "--learning-rate", "greater than 0"},
    {{"--momentum", "1"}, "--momentum", "below 1"},
    {{"--momentum", "-0.1"}, "--momentum", "at least 0"},
    {{"--weight-decay", "-1"}, "--weight-decay", "at least 0"},
    {{"--weight-decay", "0.1f"}, "--weight-decay", "at least 0"},
    {{"--train-examples", "-5"}, "--train-examples", "at least 0"},
    {{"--data-dir="}, "--data-dir", "needs a value"},
    {{"--data-dir", ""}, "--data-dir", "give a folder"},
    {{"--strategy", "tpu"}, "--strategy", "tpu is not in this version"},
    {{"--communication", "smoke"}, "--communication", "give auto, native, gloo, nccl or mpi"},
    {{"--transport", "pigeon"}, "--transport", "give auto, tcp, unix or shm"},
    {{"--compress", "int8"}, "--compress", "give none, float16"},
    {{"--overlap", "maybe"}, "--overlap", "give auto, on or off"},
    {{"--bucket-mb", "0"}, "--bucket-mb", "greater than 0"},
    {{"--bucket-mb", "-1"}, "--bucket-mb", "greater than 0"},
    {{"--bucket-mb", "25MB"}, "--bucket-mb", "greater than 0"},
    {{"--bucket-mb", "1048577"}, "--bucket-mb", "at most"},
    {{"--strategy", "fast"}, "--strategy", "multi-worker or parameter-server"},
    {{"--strategy", ""}, "--strategy", "multi-worker or parameter-server"},
    {{"--devices", "gpu"}, "--devices", "cpu:0-3"},
    {{"--devices", "cuda:"}, "--devices", "cpu:0-3"},
    {{"--devices", "cuda:-1"}, "--devices", "cpu:0-3"},
    {{"--devices", "cuda:999"}, "--devices", "cpu:0-3"},
    {{"--devices", "cuda:0,gpu"}, "--devices", "cuda:0,cuda:1 or cpu:0-3"},
    {{"--devices", "cpu:0,cpu:0"}, "--devices", "each once"},
    {{"--devices", "cpu:3-1"}, "--devices", "cpu:0-3"},
    {{"--devices", "cpu:0-1024"}, "--devices", "cpu:0-3"},
    {{"--devices", "cpu:0-2,cpu:1"}, "--devices", "each once"},
    {{"--devices", ""}, "--devices", "give"},
    {{"--devices", "cpu:0-1", "--strategy", "one-device"}, "--devices asks for 2", "mirrored"},
    {{"--devices", "cpu:0,cpu:1", "--strategy", "one-device"}, "--devices asks for 2", "mirrored"},
    {{"--strategy", "mirrored", "--rank", "0", "--world-size", "2", "--chief-address", "h:1"},
     "--strategy mirrored",
     "one worker"},
    {{"--threads", "-1"}, "--threads", "from 0 to 4096"},
    {{"--log-level", "verbose"}, "--log-level", "debug, info, warning or error"},
    {{"--log-every", "-1"}, "--log-every", "at least 0"},
    {{"--metrics-file", ""}, "--metrics-file", "give a value"},
    {{"--status", "65536"}, "--status", "0 to 65535"},
    {{"--status", ":80"}, "--status", "HOST:PORT"},
    {{"--status", "host"}, "--status", "HOST:PORT"},
    {{"--status", "8080"}, "--status", "without --model-dir"},
    {{"--json-summary=yes"}, "--json-summary", "true or false"},
    {{"--insecure", "true"}, "\"true\"", "unexpected argument"},
    {{"--no-progress=true"}, "--no-progress", "takes no value"},
    {{"--timeout", "0"}, "--timeout", "from 0.001"},
    {{"--timeout", "-1"}, "--timeout", "from 0.001"},
    {{"--timeout", "5s"}, "--timeout", "give seconds"},
    {{"--start-timeout", "1e12"}, "--start-timeout", "30 days"},
    {{"--generation", "-1"}, "--generation", "at least 0"},
    {{"--rank", "-1"}, "--rank", "from 0 to"},
    {{"--world-size", "0"}, "--world-size", "from 1 to"},
    {{"--world-size", "4097"}, "--world-size", "from 1 to 4096"},
    {{"--rank", "1"}, "--rank", "--world-size is missing"},
    {{"--world-size", "2"}, "--world-size", "--rank is missing"},
    {{"--rank", "1", "--world-size", "2"}, "--world-size", "--chief-address is missing"},
    {{"--rank", "2", "--world-size", "2", "--chief-address", "h:1"}, "--rank", "from 0 to 1"},
    {{"--chief-address", "h:1"}, "--chief-address", "--rank is missing"},
    {{"--rank", "0", "--world-size", "2", "--chief-address", "h:0"}, "--chief-address", "65535"},
    {{"--rank", "0", "--world-size", "2", "--chief-address", ":1"}, "--chief-address", "no host"},
    {{"--task", "worker:0"}, "--task", "add --cluster"},
    {{"--cluster", "no/such/file.json", "--task", "worker:0"}, "--cluster", "cannot be read"},
    {{"--cluster", "c.json", "--rank", "0"}, "--cluster", "both given"},
    {{"--config", "no/such/file.json"}, "--config", "cannot be read"},
    {{"--config", "/"}, "--config", "cannot be read"},
    {{"--nnodes", "2"}, "--nnodes", "launcher"},
    {{"--node_rank=1"}, "--node_rank", "launcher"},
    {{"--nproc-per-node", "2"}, "--nproc-per-node", "launcher"},
    {{"--virtual-replicas", "-1"}, "--virtual-replicas", "from 0 to 4096"},
    {{"--check-repeat"}, "--check-repeat", "add --virtual-replicas V"},
    {{"--shard-optimizer", "--strategy", "central-storage"},
     "--shard-optimizer",
     "use --strategy mirrored or multi-worker"},
    {{"--virtual-replicas", "8", "--strategy", "central-storage"},
     "--virtual-replicas",
     "central-storage has none"},
    {{"--strategy", "one-device", "--rank", "0", "--world-size", "2", "--chief-address", "h:1"},
     "--strategy one-device",
     "one worker"},
};

Words words_of(const std::string& line) {
  std::istringstream in(line);
  return Words(std::istream_iterator<std::string>(in), {});
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("command line: every bad line is a usage error that names the flag and what to do") {
    static_assert(troupe::kExitUsage == 2);
    CHECK(kBadLines.size() >= 40);
    for (const BadLine& line : kBadLines) {
      std::string shown;
      for (const std::string& word : line.arguments) shown += word + " ";
      CAPTURE(shown);
      try {
        (void)troupe::parse_command_line(line.arguments, {}, troupe::testing::all_flags());
        FAIL_CHECK("accepted");
      } catch (const troupe::ConfigError& error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(error.exit_code() == 2);
        CHECK(contains(message, line.names));
        CHECK(contains(message, line.says));
        CHECK(contains(message, ". Fix: "));
        CHECK(message.back() == '.');
        CHECK_FALSE(contains(message, "\n"));
      }
    }
  }

  TEST_CASE("command line: nothing given leaves every default of the structs") {
    const troupe::Options options = parsed({});
    const troupe::TrainOptions train;
    CHECK(options.train.epochs == train.epochs);
    CHECK(options.train.batch_size == train.batch_size);
    CHECK(options.train.learning_rate == train.learning_rate);
    CHECK(options.train.progress == train.progress);
    CHECK(options.strategy.kind == troupe::StrategyOptions().kind);
    CHECK(options.strategy.cluster.world_size() == 1);
    CHECK(options.strategy.cluster.origin == "local");
    CHECK(options.strategy.group.collective_timeout == troupe::GroupOptions().collective_timeout);
  }

  TEST_CASE("command line: dashes and underscores, blanks and equals signs, mean the same") {
    for (const Words& words : {Words{"--batch-size", "7"}, Words{"--batch_size", "7"},
                               Words{"--batch-size=7"}, Words{"--batch_size=7"}}) {
      CHECK(parsed(words).train.batch_size == 7);
    }
    CHECK(parsed({"--learning-rate=0.25"}).train.learning_rate == 0.25);
    CHECK(parsed({"--learning_rate", "1e-3"}).train.learning_rate == 1e-3);
  }

  TEST_CASE("command line: a replica for each device that is named") {
    const auto devices = [](const char* list) { return parsed({"--devices", list}).strategy; };
    CHECK(parsed({}).strategy.local_replicas() == 1);
    CHECK(devices("cpu").local_replicas() == 1);
    CHECK(devices("cuda").devices == Words{"cuda:0"});
    CHECK(devices("cuda:0,cuda:1").devices == Words{"cuda:0", "cuda:1"});
    CHECK(devices("cpu:0-2").devices == Words{"cpu:0", "cpu:1", "cpu:2"});
    CHECK(devices("cpu:0-1,cpu:7").local_replicas() == 3);
    CHECK(devices("cpu:0-0").local_replicas() == 1);
  }

  TEST_CASE("command line: checkpoints are saved by steps or by time") {
    const auto train = [](const char* often) { return parsed({"--save-every", often}).train; };
    CHECK(train("500").save_checkpoints_steps == 500);
    CHECK(train("0").save_checkpoints_steps == 0);
    CHECK_FALSE(train("500").save_checkpoints_secs.has_value());
    CHECK(train("90s").save_checkpoints_secs == 90);
    CHECK(train("1.5m").save_checkpoints_secs == 90);
    CHECK(train("2h").save_checkpoints_secs == 7200);
    CHECK_FALSE(train("2h").save_checkpoints_steps.has_value());
  }

  TEST_CASE("command line: where the live page is") {
    const auto train = [](const char* where) {
      return parsed({"--model-dir", "m", "--status", where}).train;
    };
    CHECK(train("8080").status_port == 8080);
    CHECK(train("8080").status_address.empty());
    CHECK(train("0.0.0.0:0").status_address == "0.0.0.0");
    CHECK(train("[fd00::1]:80").status_address == "fd00::1");
  }

  TEST_CASE("command line: every flag reaches its option") {
    const troupe::Options options = parsed({"--epochs",
                                            "3",
                                            "--max-steps",
                                            "2000",
                                            "--momentum",
                                            "0",
                                            "--weight-decay",
                                            "1e-4",
                                            "--accumulate",
                                            "4",
                                            "--clip-norm",
                                            "0.5",
                                            "--precision",
                                            "bfloat16",
                                            "--seed",
                                            "18446744073709551615",
                                            "--data-dir",
                                            "/d",
                                            "--train-examples",
                                            "10",
                                            "--strategy",
                                            "multi_worker",
                                            "--devices",
                                            "cuda:2-4",
                                            "--threads",
                                            "2",
                                            "--communication",
                                            "gloo",
                                            "--transport",
                                            "shm",
                                            "--compress",
                                            "bf16",
                                            "--overlap",
                                            "off",
                                            "--bucket-mb",
                                            "0.5",
                                            "--generation",
                                            "4",
                                            "--insecure",
                                            "--timeout",
                                            "1.5",
                                            "--start-timeout",
                                            "2",
                                            "--heartbeat-timeout",
                                            "0.35",
                                            "--log-every",
                                            "0",
                                            "--log-level",
                                            "warning",
                                            "--metrics-file",
                                            "m.jsonl",
                                            "--json-summary",
                                            "--no-progress"});
    CHECK(options.train.epochs == 3);
    CHECK(options.train.max_steps == 2000);
    CHECK(options.train.momentum == 0);
    CHECK(options.train.weight_decay == 1e-4);
    CHECK(options.strategy.step.accumulate == 4);
    CHECK(options.strategy.step.clip_norm == 0.5);
    CHECK(options.strategy.step.precision == troupe::Precision::bfloat16);
    CHECK(options.train.seed == UINT64_MAX);
    CHECK(options.data.data_dir == "/d");
    CHECK(options.data.train_examples == 10);
    CHECK(options.strategy.kind == troupe::StrategyKind::multi_worker);
    CHECK(options.strategy.devices == Words{"cuda:2", "cuda:3", "cuda:4"});
    CHECK(options.strategy.threads == 2);
    CHECK(options.strategy.communication == troupe::Communication::gloo);
    CHECK(options.strategy.group.transport == troupe::Transport::shared_memory);
    CHECK(options.strategy.compress == troupe::Compression::bfloat16);
    CHECK(options.strategy.buckets.overlap == troupe::Overlap::off);
    CHECK(options.strategy.buckets.bytes == 512 * 1024);
    CHECK(options.strategy.cluster.generation == 4);
    CHECK(options.strategy.group.insecure);
    CHECK(options.strategy.group.collective_timeout.count() == 1500);
    CHECK(options.strategy.group.start_timeout.count() == 2000);
    CHECK(options.strategy.group.heartbeat_timeout.count() == 350);
    CHECK(options.train.log_every == 0);
    CHECK(options.log_level == troupe::LogLevel::warning);
    CHECK(options.train.metrics_file == "m.jsonl");
    CHECK(options.train.json_summary);
    CHECK_FALSE(options.train.progress);
  }

  TEST_CASE("command line: flags that check and show a training reach their options") {
    const auto train = parsed({"--dry-run", "--summary", "--profile", "4"}).train;
    CHECK((train.dry_run && train.summary && train.profile_steps == 4));
    const auto unset = parsed({}).train;
    CHECK_FALSE((unset.dry_run || unset.summary || unset.profile_steps != 0));
  }

  TEST_CASE("command line: every flag about evaluation and use reaches its option") {
    const troupe::Options options = parsed(words_of(
        "--mode predict --model-dir /m --save-summary-steps 0 --on-non-finite stop "
        "--check-weights-every 12 "
        "--log-every 5 --seed 3 --start-timeout 9 "
        "--save-every 0 --eval-steps 0 --eval-name held-out_2.x "
        "--start-delay-secs 0 --throttle-secs 0 --idle-timeout-secs 30 --exporter final,best "
        "--best accuracy:max "
        "--checkpoint model.ckpt-0 "
        "--predict-keys y1,y2 --predict-examples 4 "
        "--export-dir /e"));
    CHECK(options.train.save_summary_steps == 0);
    CHECK(options.train.on_non_finite == troupe::OnNonFinite::stop);
    CHECK(options.train.check_weights_every == 12);
    CHECK(options.train.log_every == 5);
    CHECK(options.train.seed == 3);
    CHECK(options.train.save_checkpoints_steps == 0);
    CHECK(options.strategy.group.start_timeout.count() == 9000);
    const troupe::EvalOptions& eval = options.eval;
    CHECK_FALSE(eval.steps.has_value());
    CHECK(eval.name == "held-out_2.x");
    CHECK(eval.start_delay_secs == 0);
    CHECK(eval.throttle_secs == 0);
    CHECK(eval.idle_timeout_secs == 30);
    CHECK(eval.exporters == Words{"final", "best"});
    CHECK(eval.best.metric == "accuracy");
    CHECK(eval.best.better == troupe::Better::higher);
    CHECK(options.train.best->metric == "accuracy");
    CHECK(options.use.checkpoint == "model.ckpt-0");
    CHECK(options.use.predict_keys == Words{"y1", "y2"});
    CHECK(options.use.predict_examples == 4);
    CHECK(options.use.export_dir == "/e");
  }

  TEST_CASE("command line: rules of early stopping, in every mode that trains") {
    for (const char* const mode : {"train", "train-and-evaluate"}) {
      const troupe::TrainOptions train = parsed({"--mode", mode, "--model-dir", "/m",
                                                 "--early-stopping", "a:loss:100,accuracy:max=0.9"})
                                             .train;
      REQUIRE(train.early_stopping.size() == 2);
      CHECK(train.early_stopping[0].by.metric == "a:loss");
      CHECK(train.early_stopping[0].steps == 100);
      CHECK(train.early_stopping[1].by.better == troupe::Better::higher);
      CHECK(train.early_stopping[1].value == 0.9);
    }
  }

  TEST_CASE("command line: a flag that was replaced names what does its work") {
    CHECK(contains(refusal({"--best-metric", "accuracy"}), "it was removed: give --best METRIC"));
    CHECK(contains(refusal({"--stop-if-higher", "accuracy:0.9"}),
                   "give --early-stopping METRIC:max=VALUE"));
  }

  TEST_CASE("command line: a checkpoint's path names the model directory too") {
    CHECK(parsed(words_of("--mode evaluate --checkpoint /m/model.ckpt-5/")).train.model_dir ==
          "/m");
    CHECK(parsed(words_of("--mode evaluate --checkpoint model.ckpt-5")).train.model_dir == ".");
    CHECK(parsed(words_of("--mode evaluate --checkpoint /m/best")).train.model_dir == "/m");
  }

  TEST_CASE("command line: an evaluator takes no other mode") {
    CHECK(contains(refusal(words_of("--mode predict --task evaluator --model-dir /m")),
                   "makes this process the evaluator"));
  }

  TEST_CASE("command line: the defaults of an evaluation, and an exporter of none") {
    const troupe::EvalOptions eval = parsed({}).eval;
    CHECK(eval.steps == 100);
    CHECK(eval.name.empty());
    CHECK(eval.start_delay_secs == 120);
    CHECK(eval.throttle_secs == 600);
    CHECK(parsed({"--exporter", "none"}).eval.exporters.empty());
  }

  TEST_CASE("command line: data-dir synthetic is the program's generated data") {
    CHECK(parsed({"--data-dir", "synthetic"}).data.data_dir.empty());
  }

  TEST_CASE("command line: switches take true and false, and have a no- form") {
    CHECK_FALSE(parsed({"--json-summary=false"}).train.json_summary);
    CHECK_FALSE(parsed({"--no-json-summary"}).train.json_summary);
    CHECK(parsed({"--progress"}).train.progress);
  }

  TEST_CASE("command line: what follows -- belongs to the program") {
    const troupe::Options options = parsed({"--epochs", "2", "--", "--epochs", "9", "--", "x"});
    CHECK(options.train.epochs == 2);
    CHECK(options.extra == Words{"--epochs", "9", "--", "x"});
  }

  TEST_CASE("command line: a value may begin with one dash, or with two after an equals sign") {
    CHECK(parsed({"--data-dir", "-odd"}).data.data_dir == "-odd");
    CHECK(parsed({"--data-dir=--odd"}).data.data_dir == "--odd");
    CHECK(parsed({"--data-dir=a=b"}).data.data_dir == "a=b");
  }

  TEST_CASE("command line: a program's own flags set its variables and keep their defaults") {
    std::int64_t units = 32;
    double dropout = 0.5;
    std::string name = "net";
    bool shuffle = true;
    bool deep = false;
    const auto flags = [&] {
      return std::vector<troupe::Flag>{
          troupe::flag("hidden-units", &units, "units of the hidden layer", {1, 1000}),
          troupe::flag("dropout", &dropout, "share of units left out"),
          troupe::flag("net-name", &name, "name of the net"),
          troupe::flag("shuffle", &shuffle, "keep the order of the examples"),
          troupe::flag("deep", &deep, "more layers")};
    };
    (void)parsed({}, {}, flags());
    CHECK(units == 32);
    (void)parsed({"--hidden-units=64", "--dropout", "0.25", "--net-name", "x", "--no-shuffle"},
                 {{"TROUPE_DEEP", "1"}}, flags());
    CHECK(units == 64);
    CHECK(dropout == 0.25);
    CHECK(name == "x");
    CHECK_FALSE(shuffle);
    CHECK(deep);
    const std::string message = troupe::testing::message_of([&] {
      (void)troupe::parse_command_line({"--hidden-units", "0"}, {}, flags());
    });
    CHECK(contains(message, "--hidden-units is \"0\""));
    CHECK(contains(message, "from 1 to 1000"));
  }

  TEST_CASE("command line: of two equal flags the last one counts, however it is spelled") {
    CHECK(parsed({"--epochs", "3", "--epochs", "4"}).train.epochs == 4);
    CHECK(parsed({"--learning-rate", "1", "--learning_rate=2"}).train.learning_rate == 2);
    CHECK_FALSE(parsed({"--progress", "--no-progress"}).train.progress);
    CHECK(parsed({"--no-progress", "--progress"}).train.progress);
    const auto shown =
        troupe::parse_command_line({"--print-config", "--learning_rate=1", "--learning-rate", "2"},
                                   {}, troupe::testing::all_flags());
    CHECK(contains(shown.text, "--learning-rate"));
  }

  TEST_CASE("command line: a flag that the program does not read is unknown, and says so") {
    const auto without = [](const std::vector<std::string>& words,
                            const troupe::Environment& environment = {}) {
      return troupe::testing::message_of(
          [&] { (void)troupe::parse_command_line(words, environment); });
    };
    for (const char* const name : {"--learning-rate", "--learning_rate", "--momentum",
                                   "--weight-decay", "--data-dir", "--train-examples"}) {
      CAPTURE(name);
      const std::string message = without({name, "1"});
      CHECK(contains(message, std::string(name) + " is not a flag of this program."));
      CHECK(contains(message,
                     "Fix: this program does not read it; one that does has "
                     "troupe::flag(\""));
    }
    const auto help = troupe::parse_command_line({"--help-all"}, {}).text;
    CHECK_FALSE(contains(help, "--momentum"));
    // A variable may be meant for another program.
    const auto notes = troupe::parse_command_line({}, {{"TROUPE_MOMENTUM", "0.5"}}).notes;
    REQUIRE(notes.size() == 1);
    CHECK(contains(notes[0].text, "TROUPE_MOMENTUM sets nothing: this program does not read it"));
    // Workers compare what they have.
    CHECK(parsed({}).strategy.must_match.count("--momentum") == 1);
    const auto plain = troupe::parse_command_line({}, {});
    CHECK(plain.options->strategy.must_match.count("--momentum") == 0);
    // A program may have one of its own by such a name, and asks for no others.
    double momentum = 0;
    (void)troupe::parse_command_line({"--momentum", "0.25"}, {},
                                     {troupe::flag("momentum", &momentum, "its own")});
    CHECK(momentum == 0.25);
    CHECK(contains(troupe::testing::message_of([&] {
                     (void)troupe::parse_command_line({}, {}, {troupe::flag("batch-size")});
                   }),
                   "asks for a built-in flag --batch-size"));
  }

  TEST_CASE("command line: a program's flag may not take a name that exists") {
    std::int64_t value = 0;
    for (const char* name : {"epochs", "no-progress", "Upper", "x", "--dashed", "trailing-"}) {
      const std::string message = troupe::testing::message_of([&] {
        (void)troupe::parse_command_line(
            {}, {}, troupe::testing::all_flags({troupe::flag(name, &value, "a value")}));
      });
      CAPTURE(name);
      CHECK(contains(message, name));
    }
  }

  TEST_CASE("command line: what must be equal on all workers is passed on by flag name") {
    const auto match =
        parsed({"--batch-size", "96", "--rank", "0", "--world-size", "1"}).strategy.must_match;
    CHECK(match.at("--batch-size") == "96");
    CHECK(match.at("--epochs") == "unset");
    CHECK(match.count("--rank") == 0);
    for (const char* name : {"--mode", "--save-every", "--save-summary-steps", "--on-non-finite",
                             "--check-weights-every", "--accumulate", "--clip-norm", "--precision",
                             "--check-repeat", "--dry-run", "--profile", "--heartbeat-timeout"}) {
      CHECK(match.count(name) == 1);
    }
    CHECK(match.count("--task") == 0);
    CHECK(match.count("--loader-threads") == 0);
  }

  TEST_CASE("command line: --precision takes the short names, and says what to use for float16") {
    CHECK(parsed({"--precision", "bf16"}).strategy.step.precision == troupe::Precision::bfloat16);
    CHECK(parsed({"--precision", "fp32"}).strategy.step.precision == troupe::Precision::float32);
    for (const char* name : {"fp16", "float16"}) {
      CHECK_THROWS_WITH_AS((void)parsed({"--precision", name}),
                           doctest::Contains("Fix: give bfloat16 (bf16)"), troupe::ConfigError);
    }
    CHECK(parsed({"--precision", "bf16"}).strategy.must_match.at("--precision") == "bfloat16");
  }
}

}  // namespace command_line_test
