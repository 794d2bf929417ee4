#include "troupe/export/model_export.h"

#include <torch/script.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/caught.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/estimator/export/export_hooks.h"
#include "troupe/core/error.h"
#include "troupe/export/model_signature.h"
#include "troupe/hooks/tensors/tensor_file.h"

namespace model_export_test {

namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using troupe::Batch;
using troupe::ConfigError;
using troupe::EnvironmentError;
using troupe::ModelExportOptions;
using troupe::NamedTensor;
using troupe::Predictions;
using troupe::Replica;
using troupe::Trainable;
using troupe::testing::content_of;
using troupe::testing::ExportHooks;
using troupe::testing::has;
using troupe::testing::OneReplica;
using troupe::testing::predicted;
using troupe::testing::TempDir;

using torch::nn::SequentialImpl;

ExportHooks image_hooks() {
  return {[] {
            const torch::nn::Sequential net(torch::nn::Conv2d(1, 4, 3), torch::nn::BatchNorm2d(4),
                                            torch::nn::ReLU(), torch::nn::Dropout(0.5),
                                            torch::nn::Flatten(), torch::nn::Linear(144, 3));
            return Trainable(net.ptr(),
                             std::make_shared<torch::optim::SGD>(net->parameters(), 0.1));
          },
          [](Replica& replica, const Batch& batch) -> Predictions {
            const at::Tensor scores = replica.model<SequentialImpl>().forward(batch.fields[0]);
            return {{"probabilities", scores.softmax(1)}, {"class", scores.argmax(1)}};
          }};
}

std::vector<NamedTensor> image_batch() { return {{"image", torch::rand({4, 1, 8, 8})}}; }

void write_text(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// An export of image_hooks with these options in `dir`/model.
std::string export_to(const TempDir& dir, const ModelExportOptions& options = {}) {
  const fs::path folder = dir / "model";
  fs::create_directory(folder);
  const ExportHooks hooks = image_hooks();
  OneReplica replica(hooks);
  troupe::write_model(hooks, *replica, image_batch(), options, folder.string());
  return folder.string();
}

void save_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  const std::vector<std::byte> bytes = troupe::write_tensors(tensors);
  write_text(path, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

constexpr int kNoTorch = 77;  // check_export.py's exit code

// The export in dir/model, checked by the first Python here that has PyTorch: LibTorch's own, if it
// has one.
troupe::testing::ProcessResult check_in_python(const TempDir& dir,
                                               const std::vector<NamedTensor>& cases) {
  save_tensors(dir / "cases.safetensors", cases);
  troupe::testing::ProcessResult result;
  for (const std::string python : {TROUPE_TORCH_PYTHON, "python3", "/usr/bin/python3"}) {
    result =
        troupe::testing::run_process({python, TROUPE_SOURCE_DIR "/tests/interop/check_export.py",
                                      dir / "model", dir / "cases.safetensors"},
                                     {}, std::chrono::seconds(25));
    if (result.exit_code != kNoTorch && result.exit_code != 127) return result;
  }
  result.exit_code = kNoTorch;
  return result;
}

}  // namespace

TEST_SUITE_BEGIN("export");

TEST_CASE("model_export: the folder has every file, and the model under both of its names") {
  const TempDir dir;
  const std::string folder = export_to(dir);
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"1/model.pt", "README.txt", "config.pbtxt", "model.pt",
                                          "model.safetensors", "signature.json"});
  CHECK(fs::equivalent(folder + "/model.pt", folder + "/1/model.pt"));
  CHECK(has(content_of(folder + "/README.txt"), "probabilities  float32 [B, 3]"));
}

TEST_CASE("model_export: ONNX has the same files, with names as they are") {
  const TempDir dir;
  ModelExportOptions options;
  options.format = troupe::ExportFormat::onnx;
  if (TROUPE_HAS_ONNX == 0) {
    CHECK_THROWS_WITH_AS((void)export_to(dir, options),
                         doctest::Contains("this build cannot write ONNX: "), troupe::ConfigError);
    return;
  }
  const std::string folder = export_to(dir, options);
  CHECK(fs::equivalent(folder + "/model.onnx", folder + "/1/model.onnx"));
  CHECK_FALSE(fs::exists(folder + "/model.pt"));
  CHECK(fs::exists(folder + "/model.safetensors"));
  CHECK(has(content_of(folder + "/README.txt"), "onnxruntime.InferenceSession"));
  const std::string config = content_of(folder + "/config.pbtxt");
  CHECK(has(config, "platform: \"onnxruntime_onnx\""));
  CHECK(has(config, "name: \"probabilities\""));
  const json signature = json::parse(content_of(folder + "/signature.json"));
  CHECK_FALSE(signature.contains("method"));
  CHECK(signature["inputs"][0]["shape"] == json({-1, 1, 8, 8}));
}

TEST_CASE("model_export: signature.json says what goes in and comes out") {
  const TempDir dir;
  ModelExportOptions options;
  options.global_step = 1200;
  const json signature = json::parse(content_of(export_to(dir, options) + "/signature.json"));
  CHECK(signature == json::parse(R"({
    "format": "troupe-export", "version": 1, "method": "forward",
    "inputs": [{"name": "image", "dtype": "float32", "shape": [-1, 1, 8, 8]}],
    "outputs": [{"name": "probabilities", "dtype": "float32", "shape": [-1, 3]},
                {"name": "class", "dtype": "int64", "shape": [-1]}],
    "default_output": "probabilities", "global_step": 1200})"));
}

TEST_CASE("model_export: config.pbtxt names the tensors as Triton's PyTorch backend wants them") {
  const TempDir dir;
  ModelExportOptions options;
  options.model_name = "digits";
  CHECK(content_of(export_to(dir, options) + "/config.pbtxt") == R"(name: "digits"
platform: "pytorch_libtorch"
max_batch_size: 0
input [
  {
    name: "image__0"
    data_type: TYPE_FP32
    dims: [ -1, 1, 8, 8 ]
  }
]
output [
  {
    name: "probabilities__0"
    data_type: TYPE_FP32
    dims: [ -1, 3 ]
  },
  {
    name: "class__1"
    data_type: TYPE_INT64
    dims: [ -1 ]
  }
]
)");
  std::vector<troupe::TensorSignature> tensors;
  for (const std::string name : {"a b", "x__y", "x_", "\"", "a_b.c-1"}) {
    tensors.push_back({name, at::kFloat, {-1}});
  }
  CHECK(troupe::triton_names(tensors, "INPUT", troupe::ExportFormat::torch_script) ==
        std::vector<std::string>{"INPUT__0", "INPUT__1", "INPUT__2", "INPUT__3", "a_b.c-1__4"});
}

TEST_CASE("model_export: model.safetensors holds parameters and buffers by name") {
  const TempDir dir;
  const std::string content = content_of(export_to(dir) + "/model.safetensors");
  const std::vector<std::byte> bytes(
      reinterpret_cast<const std::byte*>(content.data()),
      reinterpret_cast<const std::byte*>(content.data()) + content.size());
  std::map<std::string, at::Tensor> saved;
  for (const auto& [name, tensor] : troupe::read_tensors(bytes, "f")) saved[name] = tensor;
  OneReplica replica(image_hooks());
  CHECK(saved.size() == replica->parameters().size() + replica->buffers().size());
  for (const auto& [name, tensor] : replica->parameters()) CHECK(saved[name].equal(tensor));
  for (const auto& [name, tensor] : replica->buffers()) CHECK(saved[name].equal(tensor));
}

TEST_CASE("model_export: assets go along, into folders of their own") {
  const TempDir dir;
  write_text(dir / "source", "one\ntwo\n");
  ModelExportOptions options;
  options.assets = {{"vocabulary/words.txt", dir / "source"}, {"words", dir / "source"}};
  const std::string folder = export_to(dir, options);
  CHECK(content_of(folder + "/assets.extra/vocabulary/words.txt") == "one\ntwo\n");
  CHECK(content_of(folder + "/assets.extra/words") == "one\ntwo\n");
}

TEST_CASE("model_export: an asset out of its folder or twice in one place is refused") {
  const TempDir dir;
  write_text(dir / "source", "text");
  const std::string source = dir / "source";
  ModelExportOptions options;
  for (const std::string place :
       {"", "/etc/words", "../words", "a/../../words", "a/..", "./words", "a/", "."}) {
    CAPTURE(place);
    options.assets = {{place, source}};
    CHECK_THROWS_AS(troupe::validate(options), ConfigError);
  }
  options.assets = {{"words", source}, {"words", source}};
  CHECK_THROWS_AS(troupe::validate(options), ConfigError);
  options.assets = {{"..words", source}};
  CHECK_NOTHROW(troupe::validate(options));
}

TEST_CASE("model_export: an asset that is not there stops the export before anything is written") {
  const TempDir dir;
  ModelExportOptions options;
  options.assets = {{"words", dir / "missing"}};
  CHECK_THROWS_AS(export_to(dir, options), EnvironmentError);
  CHECK(fs::is_empty(dir / "model"));
  options.assets = {{"words", dir.path()}};
  CHECK_THROWS_AS(troupe::validate(options), EnvironmentError);
}

TEST_CASE("model_export: a model's name that is no folder's is refused") {
  for (const std::string name : {"", "a/b", "..", ".hidden", "two words", "quote\""}) {
    CAPTURE(name);
    ModelExportOptions options;
    options.model_name = name;
    CHECK_THROWS_AS(troupe::validate(options), ConfigError);
  }
}

TEST_CASE("model_export: a folder that cannot be written is the environment's fault") {
  const TempDir dir;
  const ExportHooks hooks = image_hooks();
  OneReplica replica(hooks);
  CHECK_THROWS_AS(troupe::write_model(hooks, *replica, image_batch(), {}, dir / "nowhere"),
                  EnvironmentError);
}

TEST_CASE("model_export: Python opens the model and gets the same numbers") {
  const TempDir dir;
  const ExportHooks hooks = image_hooks();
  OneReplica replica(hooks);
  fs::create_directory(dir / "model");
  troupe::write_model(hooks, *replica, image_batch(), {}, dir / "model");
  std::vector<NamedTensor> cases;
  for (const std::int64_t count : {1, 7}) {
    const at::Tensor image = torch::rand({count, 1, 8, 8});
    cases.emplace_back(std::to_string(count) + "/in/image", image);
    for (const auto& [name, tensor] : predicted(hooks, *replica, {image})) {
      cases.emplace_back(std::to_string(count) + "/out/" + name, tensor);
    }
  }
  const auto result = check_in_python(dir, cases);
  if (result.exit_code == kNoTorch) {
    MESSAGE("skipped: no python3 here has PyTorch (Debian: python3-torch)");
    return;
  }
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  MESSAGE(result.out);
  CHECK(has(result.out, "batches [1, 7]: largest difference "));

  // And it is no formality: another output is noticed.
  cases[1].second.add_(0.001);
  CHECK(has(check_in_python(dir, cases).err, "probabilities is off by 0.00"));
}

TEST_SUITE_END();

}  // namespace model_export_test
