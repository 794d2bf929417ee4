// Every example's model as ONNX, through the real command line: what onnxruntime computes with it
// is what --mode predict prints, for other numbers of examples and other lengths than it was traced
// with.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/actor_critic/actor_critic_hooks.h"
#include "examples/embedding/embedding_hooks.h"
#include "examples/gan/gan_hooks.h"
#include "examples/mnist/mnist_hooks.h"
#include "examples/regression/regression_hooks.h"
#include "examples/resnet/resnet_hooks.h"
#include "examples/transformer/transformer_hooks.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/temp_dir.h"
#include "tests/support/training_runs.h"
#include "troupe.h"
#define main linear_regression_main  // its hooks are there
#include "examples/linear_regression/main.cpp"
#include "troupe/cli/command_line.h"
#undef main

namespace fs = std::filesystem;
using nlohmann::json;
using namespace troupe::testing;  // NOLINT: a test

namespace {

constexpr std::int64_t kPredicted = 13;  // lines of --mode predict

/// A table for actor_critic, of 200 decisions.
void write_decisions(const std::string& path) {
  const char* const actions[] = {"stay", "left", "right"};
  std::ofstream table(path);
  table << "warmth,noise,action,reward\n";
  for (int i = 0; i < 200; ++i) {
    table << i * 37 % 101 / 50.0 - 1 << ',' << i * 53 % 89 / 44.0 - 1 << ',' << actions[i % 3]
          << ',' << i % 5 << '\n';
  }
}

/// What the hooks of a command's program read for --mode predict.
std::shared_ptr<const troupe::Dataset> predicted_on(const troupe::Splits& splits) {
  return splits.test ? splits.test : splits.validation;
}

template <class Hooks>
std::shared_ptr<const troupe::Dataset> data_of(const Words& flags) {
  std::vector<troupe::Flag> read;  // what any of them may read
  for (const char* name :
       {"learning-rate", "momentum", "weight-decay", "data-dir", "train-examples"})
    read.push_back(troupe::flag(name));
  const auto outcome = troupe::parse_command_line(flags, {}, std::move(read));
  return predicted_on(Hooks(*outcome.options).create_datasets());
}

template <class Hooks, class Mine>
std::shared_ptr<const troupe::Dataset> data_of(const Words& flags) {
  Mine mine;
  const auto outcome = troupe::parse_command_line(flags, {}, mine.flags());
  return predicted_on(Hooks(*outcome.options, mine).create_datasets());
}

struct Example {
  std::string trains;
  std::string predicts;
  Words flags;
  std::shared_ptr<const troupe::Dataset> (*data)(const Words& flags);
  std::string lengths = "";
};

std::vector<Example> every_example(const std::string& decisions) {
  const Words few{"--train-examples", "64"};
  const Words ratings{"--users",   "500", "--items",        "100",
                      "--ratings", "400", "--eval-ratings", "40"};
  return {{"mnist", "mnist", few, data_of<MnistHooks>},
          {"muon", "muon", few, data_of<MnistHooks>},
          // This program trains only; its model is that of mnist.
          {"custom_loop", "mnist", few, data_of<MnistHooks>},
          {"linear_regression", "linear_regression", {}, data_of<LineHooks>},
          {"regression", "regression", {}, data_of<RegressionHooks, RegressionOptions>},
          {"gan", "gan", few + Words{"--width", "8"}, data_of<GanHooks, GanOptions>},
          {"embedding", "embedding", ratings, data_of<EmbeddingHooks, EmbeddingOptions>},
          {"resnet", "resnet", few + Words{"--width", "4"}, data_of<ResNetHooks, ResNetOptions>},
          {"actor_critic",
           "actor_critic",
           {"--csv", decisions},
           data_of<ActorCriticHooks, ActorCriticOptions>},
          {"transformer",
           "transformer",
           {"--lines", "64"},
           data_of<TransformerHooks, TransformerOptions>,
           "characters:1=length,mask:1=length"}};
}

void append_numbers(const json& value, std::vector<float>& numbers) {
  if (!value.is_array()) return numbers.push_back(value.get<float>());
  for (const json& inner : value) append_numbers(inner, numbers);
}

/// One output of the first `count` lines of --mode predict.
at::Tensor output(const std::vector<json>& lines, const std::string& name, std::int64_t count) {
  std::vector<std::int64_t> shape{count};
  for (const json* at = &lines.front().at(name); at->is_array(); at = &at->front()) {
    shape.push_back(static_cast<std::int64_t>(at->size()));
  }
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i) append_numbers(lines.at(i).at(name), numbers);
  return torch::tensor(numbers).view(shape);
}

/// In `folder`: the first examples, so many at a time, and what --mode predict printed of them.
void write_predictions(const std::string& folder, const troupe::Dataset& data,
                       const std::vector<json>& lines) {
  const json inputs = json::parse(std::ifstream(folder + "/signature.json")).at("inputs");
  std::vector<troupe::NamedTensor> cases;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{5}, kPredicted}) {
    const std::string at = "first " + std::to_string(count);
    const auto fields = data.get(torch::arange(count));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      cases.emplace_back(at + "/in/" + inputs[i].at("name").get<std::string>(),
                         fields.at(i).contiguous());
    }
    for (const auto& [name, value] : lines.front().items()) {
      cases.emplace_back(at + "/out/" + name, output(lines, name, count));
    }
  }
  write_cases(folder, cases);
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

/// Trains for a step, exports and predicts; returns the export's folder, with the predictions.
std::string exported(const Example& example, const std::string& model_dir) {
  const auto run = [&](const std::string& program, const Words& flags) {
    const Words common{"--model-dir", model_dir, "--batch-size", "8"};
    auto result =
        run_process(Words{kBuild + "/examples/" + program} + example.flags + common + flags, {},
                    std::chrono::milliseconds(60'000));
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return result.out;
  };
  (void)run(example.trains, {"--max-steps", "1"});
  const Words lengths =
      example.lengths.empty() ? Words{} : Words{"--export-lengths", example.lengths};
  const std::string out =
      run(example.predicts, Words{"--mode", "export", "--export-format", "onnx"} + lengths);
  const std::string folder = out.substr(0, out.find('\n'));
  for (const char* file : {"model.onnx", "1/model.onnx", "model.safetensors", "README.txt"}) {
    CHECK(fs::exists(fs::path(folder) / file));
  }
  const auto lines = lines_of(run(
      example.predicts, {"--mode", "predict", "--predict-examples", std::to_string(kPredicted)}));
  REQUIRE(lines.size() == kPredicted);
  write_predictions(folder, *example.data(example.flags), lines);
  return folder;
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: each as ONNX computes what --mode predict prints") {
    const TempDir dir;
    const std::string decisions = dir / "decisions.csv";
    write_decisions(decisions);
    std::vector<std::string> folders;
    for (const Example& example : every_example(decisions)) {
      CAPTURE(example.trains);
      folders.push_back(exported(example, dir / example.trains));
    }
    const auto result = check_onnx(folders);
    std::cerr << result.out;  // what was run, and what was skipped
    CAPTURE(result.err);
    CHECK((result.exit_code == 0 || result.exit_code == kNothingHere));
  }
}
