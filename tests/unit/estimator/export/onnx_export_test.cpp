#include "troupe/export/onnx_export.h"

#include "tests/support/caught.h"
#include "tests/unit/estimator/export/onnx_check.h"
#include "troupe/core/error.h"

using troupe::ConfigError;
using troupe::DynamicLength;
using troupe::testing::has;
using troupe::testing::model_of;
using troupe::testing::OnnxModel;
using troupe::testing::refusal;
using troupe::testing::refusal_of;

TEST_SUITE_BEGIN("export");

TEST_CASE("onnx: operators that are not covered are all named") {
  const std::string message =
      refusal_of([](auto& in) { return in.x.digamma() + in.x.lgamma() + in.x.exp(); });
  CHECK(has(message, "does not cover aten::digamma, aten::lgamma."));
  CHECK(has(message, "--export-format torchscript"));
}

TEST_CASE("onnx: what is covered in part is refused where it is not") {
  CHECK(has(refusal_of([](auto& in) { return in.x.norm(3, 1); }),
            "aten::norm of another power than 1 or 2"));
  CHECK(has(refusal_of([](auto& in) { return in.x.index({in.x > 0}).sum() + in.y; }),
            "aten::index with a mask"));
  CHECK(has(refusal_of([](auto& in) {
              auto view = in.x.clone();
              view.select(1, 0).add_(1);
              return view;
            }),
            "aten::add_: it changes a tensor in place"));
}

TEST_CASE("onnx: control flow and numbers that depend on sizes are refused") {
  CHECK(has(refusal_of([](auto& in) { return in.x.size(0) > 3 ? in.x + 1 : in.x.exp(); }),
            "in another way for other sizes (batch)"));
  CHECK(has(refusal_of([](auto& in) { return in.x * (1.0 / in.x.size(0)); }), "aten::mul"));
  // Values that the program writes by itself, in a tensor that the trace knows or does not know.
  const auto rows_of = [](const at::Tensor& x) {
    const at::Tensor rows = torch::empty({x.size(0), 1, 1});
    for (std::int64_t b = 0; b < x.size(0); ++b) rows.data_ptr<float>()[b] = 0.5F;
    return rows;
  };
  CHECK(has(refusal_of([&](auto& in) { return in.x + rows_of(in.x); }),
            "aten::add on a tensor whose values come from no operator"));
  CHECK(has(refusal_of([&](auto& in) { return in.x + rows_of(in.x).data(); }),
            "computes a tensor in another way for other sizes (batch) at aten::add"));
  CHECK(has(refusal_of([](auto& in) {
              return in.x.repeat({in.x.size(0) * in.x.size(0), 1, 1}).narrow(0, 0, in.x.size(0));
            }),
            "aten::repeat"));
}

TEST_CASE("onnx: random numbers and equal names are refused") {
  CHECK(has(refusal_of([](auto& in) { return in.x + torch::rand_like(in.x); }),
            "draws random numbers"));
  CHECK(has(refusal(model_of("names", {{"x", [](auto& in) { return in.x + 1; }}})),
            "\"x\" is the name of an input and of a prediction"));
}

TEST_CASE("onnx: lengths that do not fit the inputs are refused") {
  OnnxModel model = model_of("one", {{"out", [](auto& in) { return in.x + 1; }}});
  const auto with = [&](const DynamicLength& length) {
    OnnxModel other = model;
    other.lengths.push_back(length);
    return refusal(other);
  };
  CHECK(with({"x", 2, "width"}).empty());
  CHECK(has(with({"z", 1, "width"}), "name one of: x, y, i, m."));
  CHECK(has(with({"x", 0, "width"}), "count dimensions from 0"));
  CHECK(has(with({"x", 3, "width"}), "has the shape [4, 4, 6]"));
  CHECK(has(with({"y", 1, "width"}), "4 at least"));
  CHECK(has(with({"x", 1, "batch"}), "none of them \"batch\""));
  model.lengths = {{"x", 1, "width"}};
  CHECK(has(with({"x", 2, "width"}), "let all its dimensions have one size"));
  model.lengths = {{"x", 1, "a"}, {"x", 2, "b"}};
  CHECK(has(with({"i", 1, "c"}), "at most 2 names"));
}

TEST_CASE("onnx: a length is read from INPUT:DIMENSION=NAME") {
  const DynamicLength length = troupe::parse_dynamic_length("tokens:1=length");
  CHECK(length.input == "tokens");
  CHECK(length.dimension == 1);
  CHECK(length.name == "length");
  for (const char* wrong : {"", "tokens", "tokens:1", "tokens=length", ":1=a", "a:0=b",
                            "a:1=", "a:x=b", "a:12=b", "a=b:1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS((void)troupe::parse_dynamic_length(wrong), ConfigError);
  }
}

TEST_SUITE_END();
