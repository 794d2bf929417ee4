#include "troupe/hooks/tensors/script_model.h"

#include <torch/script.h>

#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"

namespace script_model_test {
namespace {

using troupe::ScriptModel;
using troupe::testing::TempDir;

/// x times a weight, of a part that tells whether it trains.
torch::jit::Module script(const std::string& returns = "y") {
  torch::jit::Module part("Part");
  part.register_attribute("training", c10::BoolType::get(), true);
  part.register_parameter("weight", torch::tensor({2.0, 3.0}).requires_grad_(),
                          /*is_buffer=*/false);
  part.register_buffer("seen", torch::zeros({}));
  part.define("def forward(self, x):\n  return x * self.weight if self.training else x\n");
  torch::jit::Module whole("Whole");
  whole.register_attribute("training", c10::BoolType::get(), true);
  whole.register_module("part", part);
  whole.define("def forward(self, x):\n  y = self.part.forward(x)\n  return " + returns + "\n");
  return whole;
}

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
    return "";
  } catch (const troupe::Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("hooks") {
  TEST_CASE("script: a model by its own names, trained and frozen like any other") {
    const auto made = std::make_shared<ScriptModel>(script());
    ScriptModel& model = *made;
    REQUIRE(model.named_parameters().size() == 1);
    CHECK(model.named_parameters().front().key() == "part.weight");
    CHECK(model.named_buffers().front().key() == "part.seen");
    const at::Tensor x = torch::ones({2});
    model.forward(x).sum().backward();
    at::Tensor weight = model.named_parameters()["part.weight"];
    CHECK(weight.grad().sum().item<double>() == 2);
    torch::optim::SGD sgd(model.parameters(), 1.0);
    sgd.step();
    CHECK(model.forward(x).sum().item<double>() == 3);  // the script sees the new weight
    weight.requires_grad_(false);
    CHECK(!model.forward(x).requires_grad());

    model.eval();
    CHECK(model.forward(x).sum().item<double>() == 2);  // its parts are told, too
    model.train();
    model.named_modules()["part"]->eval();  // and one of them alone
    CHECK(model.is_training());
    CHECK(model.forward(x).sum().item<double>() == 2);
    model.to(torch::kFloat64);
    CHECK(model.named_parameters().front().value().dtype() == torch::kFloat64);
  }

  TEST_CASE("script: two models of one script share nothing, a file keeps the parts' modes") {
    const torch::jit::Module one = script();
    ScriptModel first(one);
    const ScriptModel second(one);
    CHECK(first.parameters().front().data_ptr() != second.parameters().front().data_ptr());

    const TempDir dir;
    torch::jit::Module saved = script();
    for (const auto& part : saved.named_children()) torch::jit::Module(part.value).eval();
    saved.save(dir / "model.pt");
    const auto read = std::make_shared<ScriptModel>(dir / "model.pt");
    CHECK(read->is_training());
    CHECK(!read->named_modules()["part"]->is_training());
    CHECK(read->forward(torch::ones({2})).sum().item<double>() == 2);
  }

  TEST_CASE("script: what is no script, or returns something else, is named") {
    const TempDir dir;
    std::ofstream(dir / "model.pt") << "no archive";
    CHECK(refusal([&] { (void)ScriptModel(dir / "model.pt"); }).find("cannot be read as a model") !=
          std::string::npos);
    ScriptModel pair(script("(y, x)"));
    CHECK(pair.forward_all({torch::ones({2})}).size() == 2);
    CHECK(refusal([&] { (void)pair.forward(torch::ones({2})); }).find("returned 2 tensors") !=
          std::string::npos);
    ScriptModel word(script("'word'"));
    CHECK(refusal([&] { (void)word.forward(torch::ones({2})); }).find("returned a String") !=
          std::string::npos);
  }
}

}  // namespace script_model_test
