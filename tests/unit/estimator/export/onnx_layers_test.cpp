#include "tests/support/caught.h"
#include "tests/unit/estimator/export/onnx_check.h"
#include "troupe/core/error.h"

namespace troupe::testing {
namespace {

namespace nn = torch::nn;

/// A model whose module is `parts`, by name.
struct Parts : nn::Module {
  explicit Parts(const std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>& parts) {
    for (const auto& [name, part] : parts) register_module(name, part);
  }
  template <class Layer>
  Layer& get(const std::string& name) {
    return *std::dynamic_pointer_cast<Layer>(named_children()[name]);
  }
};
/// A Sequential of images [B, channels, 8, 8].
OnnxModel image_model(const std::string& name, std::int64_t channels,
                      const std::function<nn::Sequential()>& make) {
  OnnxModel model;
  model.name = name;
  model.make = [make] {
    const nn::Sequential layers = make();
    const torch::NoGradGuard no_grad;
    return layers.ptr();
  };
  model.predict = [](nn::Module& module, const Tensors& in) -> Predictions {
    return {{"out", dynamic_cast<nn::SequentialImpl&>(module).forward(in[0])}};
  };
  model.inputs = {"image"};
  model.examples = [channels](std::int64_t count, std::int64_t) -> Tensors {
    return {torch::rand({count, channels, 8, 8})};
  };
  return model;
}

OnnxModel recommender() {
  OnnxModel model;
  model.name = "recommender";
  model.make = [] {
    return std::make_shared<Parts>(std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>{
        {"users", nn::Embedding(20, 4).ptr()}, {"items", nn::Embedding(10, 4).ptr()}});
  };
  model.predict = [](nn::Module& module, const Tensors& in) -> Predictions {
    auto& parts = dynamic_cast<Parts&>(module);
    const at::Tensor user = parts.get<nn::EmbeddingImpl>("users").forward(in[0]);
    const at::Tensor item = parts.get<nn::EmbeddingImpl>("items").forward(in[1]);
    return {{"stars", (user * item).sum(1) + 3.5}};
  };
  model.inputs = {"user", "item"};
  model.examples = [](std::int64_t count, std::int64_t) -> Tensors {
    return {torch::randint(20, {count}, torch::kLong), torch::randint(10, {count}, torch::kLong)};
  };
  return model;
}

Tensors tokens_and_padding(std::int64_t count, std::int64_t length) {
  const at::Tensor padding = torch::zeros({count, length}, torch::kBool);
  padding.narrow(1, length - 1, 1).fill_(true);
  padding[0].fill_(false);
  return {torch::randint(11, {count, length}, torch::kLong), padding};
}

/// LibTorch's own encoder, on tokens, with a mask of padding.
OnnxModel transformer_encoder() {
  OnnxModel model;
  model.name = "transformer_encoder";
  model.make = [] {
    const auto layer =
        nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).activation(torch::kGELU);
    return std::make_shared<Parts>(std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>{
        {"tokens", nn::Embedding(11, 8).ptr()},
        {"encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, 2)).ptr()}});
  };
  model.predict = [](nn::Module& module, const Tensors& in) -> Predictions {
    auto& parts = dynamic_cast<Parts&>(module);
    const at::Tensor x = parts.get<nn::EmbeddingImpl>("tokens").forward(in[0]).transpose(0, 1);
    const at::Tensor h =
        parts.get<nn::TransformerEncoderImpl>("encoder").forward(x, {}, in[1]).transpose(0, 1);
    const at::Tensor present = in[1].logical_not().unsqueeze(2).to(torch::kFloat);
    return {{"states", h}, {"mean", (h * present).sum(1) / present.sum(1)}};
  };
  model.inputs = {"tokens", "padding"};
  model.lengths = {{"tokens", 1, "length"}, {"padding", 1, "length"}};
  model.examples = tokens_and_padding;
  return model;
}

/// Causal attention by hand, with learnt positions: sizes are numbers in C++.
OnnxModel language_model() {
  OnnxModel model;
  model.name = "language_model";
  model.make = [] {
    return std::make_shared<Parts>(std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>{
        {"tokens", nn::Embedding(11, 8).ptr()},
        {"places", nn::Embedding(32, 8).ptr()},
        {"qkv", nn::Linear(8, 24).ptr()},
        {"norm", nn::LayerNorm(nn::LayerNormOptions({8})).ptr()},
        {"out", nn::Linear(8, 11).ptr()}});
  };
  model.predict = [](nn::Module& module, const Tensors& in) -> Predictions {
    auto& parts = dynamic_cast<Parts&>(module);
    const std::int64_t count = in[0].size(0);
    const std::int64_t length = in[0].size(1);
    const at::Tensor places = torch::arange(length, in[0].options());
    at::Tensor x = parts.get<nn::EmbeddingImpl>("tokens").forward(in[0]) +
                   parts.get<nn::EmbeddingImpl>("places").forward(places);
    x = parts.get<nn::LayerNormImpl>("norm").forward(x);
    const auto heads = [&](const at::Tensor& t) {
      return t.view({count, length, 2, 4}).transpose(1, 2);  // [B, 2, T, 4]
    };
    const auto qkv = parts.get<nn::LinearImpl>("qkv").forward(x).chunk(3, 2);
    const at::Tensor future = torch::ones({length, length}, torch::kBool).triu(1);
    const at::Tensor scores = heads(qkv[0]).matmul(heads(qkv[1]).transpose(2, 3)) / 2.0;
    const at::Tensor weights = scores.masked_fill(future, -INFINITY).softmax(-1);
    const at::Tensor joined =
        weights.matmul(heads(qkv[2])).transpose(1, 2).reshape({count, length, 8});
    const at::Tensor logits = parts.get<nn::LinearImpl>("out").forward(x + joined);
    return {{"logits", logits.log_softmax(2)}, {"last", logits.select(1, length - 1)}};
  };
  model.inputs = {"tokens"};
  model.lengths = {{"tokens", 1, "length"}};
  model.examples = [](std::int64_t count, std::int64_t length) -> Tensors {
    return {tokens_and_padding(count, length)[0]};
  };
  return model;
}

/// Recurrent layers; LibTorch makes their first state from the batch's size, a number.
OnnxModel recurrent() {
  OnnxModel model;
  model.name = "recurrent";
  model.make = [] {
    return std::make_shared<Parts>(std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>{
        {"lstm",
         nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true)).ptr()},
        {"gru", nn::GRU(nn::GRUOptions(8, 5).batch_first(true)).ptr()},
        {"rnn", nn::RNN(nn::RNNOptions(5, 2).bias(false)).ptr()}});
  };
  model.predict = [](nn::Module& module, const Tensors& in) -> Predictions {
    auto& parts = dynamic_cast<Parts&>(module);
    const auto [lstm, state] = parts.get<nn::LSTMImpl>("lstm").forward(in[0]);
    const at::Tensor gru = std::get<0>(parts.get<nn::GRUImpl>("gru").forward(lstm));
    const at::Tensor rnn = std::get<0>(parts.get<nn::RNNImpl>("rnn").forward(gru.transpose(0, 1)));
    return {{"lstm", lstm},
            {"cell", std::get<1>(state).transpose(0, 1)},
            {"gru", gru},
            {"rnn", rnn.transpose(0, 1)}};
  };
  model.inputs = {"series"};
  model.lengths = {{"series", 1, "time"}};
  model.examples = [](std::int64_t count, std::int64_t length) -> Tensors {
    return {torch::randn({count, length, 3})};
  };
  return model;
}

std::vector<OnnxModel> layer_models() {
  const auto classifier = [] {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).stride(2).groups(1)),
                          nn::BatchNorm2d(8), nn::ReLU(nn::ReLUOptions().inplace(true)),
                          nn::MaxPool2d(2), nn::Dropout(0.5), nn::Flatten(), nn::Linear(32, 8),
                          nn::LogSoftmax(1));
  };
  const auto generator = [] {
    return nn::Sequential(
        nn::ConvTranspose2d(
            nn::ConvTranspose2dOptions(3, 4, 3).stride(2).padding(1).output_padding(1)),
        nn::InstanceNorm2d(4), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
        nn::GroupNorm(nn::GroupNormOptions(2, 4)), nn::Tanh(),
        nn::Upsample(
            nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest)),
        nn::AvgPool2d(nn::AvgPool2dOptions(3).padding(1).count_include_pad(false)));
  };
  const auto pooled = [] {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 6, 3).groups(3).dilation(2).bias(false)),
                          nn::PReLU(nn::PReLUOptions().num_parameters(6)), nn::ReflectionPad2d(1),
                          nn::AdaptiveAvgPool2d(3), nn::AdaptiveMaxPool2d(1), nn::Flatten(),
                          nn::BatchNorm1d(nn::BatchNorm1dOptions(6).affine(false)), nn::SiLU(),
                          nn::Softplus());
  };
  return {image_model("classifier", 3, classifier), image_model("generator", 3, generator),
          image_model("pooled", 3, pooled), recommender()};
}

}  // namespace
}  // namespace troupe::testing

using troupe::testing::check_models;
using troupe::testing::has;

TEST_SUITE_BEGIN("export");

TEST_CASE("onnx: layers give predict_step's numbers at other batch sizes") {
  check_models(troupe::testing::layer_models());
}

TEST_CASE("onnx: sequences give predict_step's numbers at other batch sizes and lengths") {
  check_models({troupe::testing::transformer_encoder(), troupe::testing::language_model(),
                troupe::testing::recurrent()});
}

TEST_CASE("onnx: a model that TorchScript has written gives predict_step's numbers") {
  troupe::testing::OnnxModel model;
  model.name = "script";
  model.make = [] { return troupe::testing::script_model(); };
  model.predict = [](torch::nn::Module& module,
                     const troupe::testing::Tensors& in) -> troupe::Predictions {
    return {{"y", dynamic_cast<troupe::ScriptModel&>(module).forward(in[0])}};
  };
  model.inputs = {"x"};
  model.examples = [](std::int64_t count, std::int64_t) -> troupe::testing::Tensors {
    return {torch::rand({count, 3})};
  };
  check_models({model});
}

TEST_CASE("onnx: a wrong number is noticed") {
  const troupe::testing::TempDir dir;
  const std::filesystem::path folder(dir / "a");
  troupe::testing::export_with_cases(troupe::testing::recommender(), folder);
  auto cases = troupe::testing::read_cases(folder);
  for (auto& [name, tensor] : cases) {
    if (has(name, "/out/")) tensor.add_(0.001);
  }
  troupe::testing::write_cases(folder, cases);
  const auto result = troupe::testing::check_onnx({folder.string()});
  if (result.exit_code == troupe::testing::kNothingHere || has(result.out, "SKIPPED: a run")) {
    MESSAGE("skipped: no onnxruntime here (tests/interop/check_onnx.py)");
    return;
  }
  CHECK(has(result.err, "stars is off by 0.00"));
}

TEST_SUITE_END();
