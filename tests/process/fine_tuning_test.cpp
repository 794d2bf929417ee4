// docs/fine_tuning.md through the real command line: equal to the plain LibTorch loop, and to
// itself after five kills.
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/fine_tuning/fine_tuning_hooks.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"
#include "troupe/hooks/tensors/tensor_file.h"
#include "troupe/train/schedule/averaged_weights.h"

namespace fs = std::filesystem;
using nlohmann::json;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::Process;
using troupe::testing::ProcessResult;
using troupe::testing::run_process;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

constexpr std::int64_t kExamples = 140;
constexpr std::int64_t kBatch = 20;
constexpr std::int64_t kEpochs = 4;
constexpr std::int64_t kThaw = 2;
constexpr double kRate = 0.1;
constexpr double kClip = 0.5;
constexpr double kDecay = 0.9;

/// 200 flowers of three kinds, and the file of the backbone.
void write_inputs(const fs::path& folder) {
  std::ofstream table(folder / "flowers.csv");
  table << "a,b,c,d,kind\n" << std::setprecision(6);
  const char* const kinds[] = {"setosa", "versicolor", "virginica"};
  for (int i = 0; i < 200; ++i) {
    const int kind = i * 7 % 3;
    for (int column = 0; column < 4; ++column)
      table << std::sin(i * 1.3 + column) * 0.6 + kind * (column - 1.5) * 0.5 << ",";
    table << kinds[kind] << "\n";
  }
  const auto made =
      run_process({"python3", std::string(TROUPE_SOURCE_DIR) + "/tests/process/write_backbone.py",
                   (folder / "backbone.safetensors").string()});
  REQUIRE(made.exit_code == 0);
}

Words command(const fs::path& folder, const fs::path& model_dir) {
  const std::string file = (folder / "backbone.safetensors").string();
  return {kBuild + "/examples/fine_tuning",
          "--table",
          (folder / "flowers.csv").string(),
          "--mode",
          "train-and-evaluate",
          "--model-dir",
          model_dir.string(),
          "--epochs",
          std::to_string(kEpochs),
          "--batch-size",
          std::to_string(kBatch),
          "--learning-rate",
          "0.1",
          "--thaw-epoch",
          std::to_string(kThaw),
          "--clip-norm",
          "0.5",
          "--ema-decay",
          "0.9",
          "--init-from",
          file,
          "--init-map",
          "module.=",
          "--init-missing",
          "head\\..*",
          "--save-every",
          "4",
          "--throttle-secs",
          "0",
          "--exporter",
          "best",
          "--best",
          "accuracy",
          "--early-stopping",
          "accuracy:1000",
          "--log-every",
          "1"};
}

Words on_two(const Words& program) {
  return Words{kBuild + "/troupe", "run", "--workers", "2", "--no-prefix", "--"} + program;
}

std::vector<std::byte> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(content.data());
  return {begin, begin + content.size()};
}

std::map<std::string, at::Tensor> tensors_in(const fs::path& file) {
  std::map<std::string, at::Tensor> all;
  for (auto& [name, tensor] : troupe::read_tensors(bytes_of(file), file.string()))
    all[name] = tensor.clone();
  return all;
}

std::string hash_in(const std::string& log) {
  const std::string key = "parameter_hash ";
  const auto at = log.find(key);
  return at == std::string::npos ? "" : log.substr(at + key.size(), 64);
}

/// What LibTorch alone makes of it: parameters by name, and their averages under "average/".
std::map<std::string, at::Tensor> plain_loop(const fs::path& folder) {
  torch::manual_seed(1);
  Net net;
  const auto backbone = tensors_in(folder / "backbone.safetensors");
  {
    const torch::NoGradGuard no_grad;
    for (auto& item : net.named_parameters()) {
      const auto found = backbone.find("module." + item.key());
      if (found != backbone.end()) item.value().copy_(found->second);
    }
  }
  for (torch::Tensor& weight : net.backbone->parameters()) weight.requires_grad_(false);
  const auto rate = [](double lr) { return torch::optim::SGDOptions(lr).momentum(0.9); };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net.backbone->parameters(),
                      std::make_unique<torch::optim::SGDOptions>(rate(kRate / 10)));
  groups.emplace_back(net.head->parameters());
  torch::optim::SGD sgd(groups, rate(kRate));
  std::map<std::string, at::Tensor> averages;
  for (const auto& item : net.named_parameters())
    averages[item.key()] = item.value().detach().clone();
  const auto data = troupe::take(
      troupe::load_csv((folder / "flowers.csv").string(),
                       {{troupe::csv_real("a"), troupe::csv_real("b"), troupe::csv_real("c"),
                         troupe::csv_real("d")},
                        {troupe::csv_category("kind", {"setosa", "versicolor", "virginica"})}}),
      0, kExamples);
  std::int64_t updates = 0;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (torch::Tensor& weight : net.backbone->parameters()) weight.requires_grad_(epoch >= kThaw);
    const at::Tensor order =
        torch::tensor(troupe::shuffled().order({kExamples, kBatch, /*seed=*/1, epoch}));
    for (std::int64_t step = 0; step < kExamples / kBatch; ++step) {
      const auto rows = data->get(order.narrow(0, step * kBatch, kBatch));
      for (torch::Tensor& weight : net.parameters()) weight.mutable_grad() = torch::Tensor();
      const auto scores = net.forward(rows[0].to(torch::kFloat64));
      torch::nll_loss(torch::log_softmax(scores, 1), rows[1]).backward();
      double squares = 0;
      for (const torch::Tensor& weight : net.parameters())
        if (weight.grad().defined()) squares += weight.grad().pow(2).sum().item<double>();
      const double norm = std::sqrt(squares);
      for (const torch::Tensor& weight : net.parameters())
        if (weight.grad().defined() && norm > kClip) weight.grad().mul_(kClip / norm);
      sgd.step();
      const torch::NoGradGuard no_grad;
      const double decay = troupe::averaging_decay(kDecay, updates++);
      for (const auto& item : net.named_parameters())
        averages[item.key()].lerp_(item.value(), 1 - decay);
    }
  }
  for (const auto& item : net.named_parameters())
    averages["parameter/" + item.key()] = item.value();
  return averages;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("fine-tuning: equal to the plain loop, and killed five times to one hash") {
    const TempDir folder;
    write_inputs(folder.path());
    const auto expected = plain_loop(folder.path());
    const TempDir whole;
    const ProcessResult two = run_process(on_two(command(folder.path(), whole.path())), {}, kLimit);
    INFO(two.err);
    REQUIRE(two.exit_code == 0);
    const std::string hash = hash_in(two.err);
    CHECK(hash.size() == 64);
    // What was loaded, what was missing, what was left over.
    CHECK(two.err.find("warm start: 4 of 6 tensors from ") != std::string::npos);
    CHECK(two.err.find("4 of them converted from another type") != std::string::npos);
    CHECK(two.err.find("as create_model made them: head.weight, head.bias") != std::string::npos);
    CHECK(two.err.find("warm start: left over there: old_head.weight") != std::string::npos);
    // Evaluated and exported by the workers, which no evaluator stands beside.
    CHECK(two.err.find("exporter 'best': step ") != std::string::npos);

    const auto check_equal = [&](const fs::path& checkpoint) {
      for (const auto& [name, tensor] : tensors_in(checkpoint / "model.safetensors")) {
        CAPTURE(name);
        CHECK(torch::allclose(tensor, expected.at("parameter/" + name), 0, 1e-9));
      }
      for (const auto& [name, tensor] : tensors_in(checkpoint / "averages.safetensors")) {
        CAPTURE(name);
        CHECK(torch::allclose(tensor, expected.at(name), 0, 1e-9));
      }
    };
    check_equal(whole.path() / "model.ckpt-28");
    // While it was frozen the backbone kept its bits.
    const auto backbone = tensors_in(folder.path() / "backbone.safetensors");
    const auto frozen = tensors_in(whole.path() / "model.ckpt-12/model.safetensors");
    for (const char* const name : {"backbone.0.weight", "backbone.2.bias"}) {
      CHECK(frozen.at(name).equal(backbone.at("module." + std::string(name)).to(torch::kFloat64)));
      CHECK_FALSE(frozen.at(name).equal(
          tensors_in(whole.path() / "model.ckpt-16/model.safetensors").at(name)));
    }
    const TempDir alone;
    REQUIRE(run_process(command(folder.path(), alone.path()), {}, kLimit).exit_code == 0);
    check_equal(alone.path() / "model.ckpt-28");

    const TempDir killed;
    for (const int step : {4, 8, 12, 16, 24}) {  // frozen, at the thaw, and after it
      CAPTURE(step);
      Process run(on_two(command(folder.path(), killed.path())));
      REQUIRE(run.wait_for_output("model.ckpt-" + std::to_string(step) + " (", kLimit));
      run.signal(SIGKILL);
      CHECK(run.wait(kLimit).signal == SIGKILL);
    }
    const ProcessResult rest =
        run_process(on_two(command(folder.path(), killed.path())), {}, kLimit);
    INFO(rest.err);
    REQUIRE(rest.exit_code == 0);
    CHECK(rest.err.find("resuming at step ") != std::string::npos);
    CHECK(hash_in(rest.err) == hash);
    check_equal(killed.path() / "model.ckpt-28");
  }

  TEST_CASE("fine-tuning: a file of torch.save is refused with the line that converts it") {
    const TempDir folder;
    write_inputs(folder.path());
    std::ofstream(folder.path() / "backbone.pt", std::ios::binary) << "PK\x03\x04"
                                                                   << "archive";
    const auto refused = [&](const Words& more) {
      const TempDir dir;
      Words words = command(folder.path(), dir.path());
      words.insert(words.end(), more.begin(),
                   more.end());  // of two equal flags the last one counts
      const auto result = run_process(words, {}, kLimit);
      CHECK(result.exit_code != 0);
      CHECK_FALSE(fs::exists(dir.path() / "model.ckpt-0"));
      return result.err;
    };
    CHECK(refused({"--init-from", (folder.path() / "backbone.pt").string()})
              .find("s.save_file(torch.load('") != std::string::npos);
    CHECK(refused({"--init-map", "other.="}).find("--init-map 'module.='") != std::string::npos);
    CHECK(refused({"--init-missing", "nothing"}).find("has no head.weight, head.bias") !=
          std::string::npos);
    CHECK(refused({"--init-map", "module.backbone.2.=backbone.0.,module.=", "--init-missing",
                   "head.*|backbone.2.*"})
              .find("the name \"backbone.0.weight\"") != std::string::npos);
  }
}
