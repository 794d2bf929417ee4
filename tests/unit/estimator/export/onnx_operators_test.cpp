#include "tests/unit/estimator/export/onnx_check.h"

namespace troupe::testing {
namespace {

OnnxModel elementwise() {
  return model_of(
      "elementwise",
      {{"add", [](auto& in) { return torch::add(in.x, in.y, 2); }},
       {"sub_int", [](auto& in) { return in.i - in.x.select(1, 0); }},
       {"rsub", [](auto& in) { return 1 - in.x; }},
       {"mul_mask", [](auto& in) { return in.x * in.m.unsqueeze(1); }},
       {"div_int", [](auto& in) { return in.i / 3; }},
       {"div_floor", [](auto& in) { return torch::div(in.x, 0.3, "floor"); }},
       {"div_trunc", [](auto& in) { return torch::div(in.x, 0.3, "trunc"); }},
       {"remainder", [](auto& in) { return torch::remainder(in.x, 0.7); }},
       {"remainder_int", [](auto& in) { return torch::remainder(in.i - 2, 3); }},
       {"pow", [](auto& in) { return in.x.pow(2) + in.x.abs().pow(0.5); }},
       {"neg_exp", [](auto& in) { return (-in.x).exp(); }},
       {"logs", [](auto& in) { return in.x.abs().log1p() + (in.x.square() + 1).log(); }},
       {"roots", [](auto& in) { return in.x.abs().sqrt() + (in.x.abs() + 1).rsqrt(); }},
       {"waves", [](auto& in) { return in.x.sin() + in.x.cos() * in.x.tanh() + in.x.atan(); }},
       {"rounding", [](auto& in) { return in.x.floor() + in.x.ceil() * 2 + in.x.round() * 4; }},
       {"sign", [](auto& in) { return in.x.sign() + in.x.reciprocal() + in.x.erf(); }},
       {"clamp", [](auto& in) { return in.x.clamp(-0.5, 0.5) + in.x.clamp_min(0.1); }},
       {"greater", [](auto& in) { return (in.x > in.y).logical_and(in.m.unsqueeze(1)); }},
       {"equal", [](auto& in) { return (in.i == 2) | (in.i >= 3) | (((in.i < 1) & (in.i != 0))); }},
       {"half", [](auto& in) { return (in.i > 1.5) ^ (in.i <= in.x.select(1, 0)); }},
       {"maximum", [](auto& in) { return torch::maximum(in.x, in.y) + torch::min(in.x, in.y); }},
       {"where", [](auto& in) { return torch::where(in.x > 0, in.x, in.y * 2); }},
       {"filled", [](auto& in) { return in.x.masked_fill(in.m.unsqueeze(1), -1e9); }},
       {"casts",
        [](auto& in) {
          return in.x.to(torch::kInt).to(torch::kDouble) + in.m.to(torch::kLong).unsqueeze(1);
        }},
       {"gelu", [](auto& in) { return torch::gelu(in.x) + torch::silu(in.x) + torch::mish(in.x); }},
       {"elu",
        [](auto& in) {
          return torch::elu(in.x, 0.7) + torch::selu(in.x) + torch::log_sigmoid(in.x);
        }},
       {"hard",
        [](auto& in) {
          return torch::hardtanh(in.x) + torch::hardsigmoid(in.x) + torch::hardswish(in.x) +
                 torch::relu6(in.x * 9);
        }},
       {"glu", [](auto& in) { return torch::glu(in.x, 1) + torch::sigmoid(in.x).slice(1, 0, 2); }},
       {"in_place", [](auto& in) { return (in.x * 2).add_(1).relu_().mul_(in.y).clamp_(0, 1); }}});
}

OnnxModel shapes() {
  using namespace torch::indexing;  // NOLINT
  return model_of(
      "shapes",
      {{"view",
        [](auto& in) {
          return in.x.view({in.x.size(0), -1});
        }},
       {"view_batch",
        [](auto& in) {
          return in.x.reshape({in.x.size(0) * 2, 12}).view({-1, 24});
        }},
       {"flatten",
        [](auto& in) {
          return in.x.flatten(1).unflatten(1, std::vector<std::int64_t>{6, 4});
        }},
       {"permute",
        [](auto& in) {
          return in.x.permute({0, 2, 1}).transpose(-1, 1).unsqueeze(-1);
        }},
       {"squeeze", [](auto& in) { return in.y.squeeze(1) + in.y.squeeze(); }},
       {"expand",
        [](auto& in) {
          return in.y.expand({in.x.size(0), 4, -1}) + in.y.expand_as(in.x);
        }},
       {"repeat",
        [](auto& in) {
          return in.y.repeat({1, 2, 1});
        }},
       {"repeat_more",
        [](auto& in) {
          return in.i.repeat({1, 2, 1}).transpose(0, 1).slice(1, 0, 1).reshape({-1, 12}).slice(
              0, 0, in.x.size(0));
        }},
       {"slices",
        [](auto& in) {
          return in.x.index({Slice(), None, Slice(1, 4, 2), Slice(None, -1)});
        }},
       {"select",
        [](auto& in) {
          return in.x.select(1, -1) + in.x.index({Slice(), 0});
        }},
       {"narrow", [](auto& in) { return in.x.narrow(2, 1, 3); }},
       {"cat",
        [](auto& in) {
          return torch::cat({in.x, in.y, in.m.unsqueeze(1)}, 1);
        }},
       {"stack",
        [](auto& in) {
          return torch::stack({in.x, in.x * 2}, -1);
        }},
       {"chunk",
        [](auto& in) {
          auto c = in.x.chunk(3, 2);
          return c[0] - c[2];
        }},
       {"split",
        [](auto& in) {
          auto c = in.x.split({1, 3}, 1);
          return c[0] * c[1];
        }},
       {"unbind",
        [](auto& in) {
          auto c = in.x.unbind(1);
          return c[3] - c[1];
        }},
       {"gather", [](auto& in) { return in.x.gather(1, in.i.unsqueeze(1)); }},
       {"index_one",
        [](auto& in) {
          return in.x.index({Slice(), torch::tensor({2, 0, 3})});
        }},
       {"index_rows",
        [](auto& in) {
          return in.x.index({torch::arange(in.x.size(0)), in.i.select(1, 0)});
        }},
       {"index_select",
        [](auto& in) {
          return in.x.index_select(2, torch::tensor({5, 0}));
        }},
       {"pad",
        [](auto& in) {
          return torch::constant_pad_nd(in.x, {1, 2, 0, 1}, 0.5);
        }},
       {"flip",
        [](auto& in) {
          return in.x.flip({1, 2});
        }},
       {"triangle", [](auto& in) { return in.x.tril(-1) + in.x.triu(1); }},
       {"made",
        [](auto& in) {
          return torch::zeros_like(in.x) + torch::ones({in.x.size(0), 1, 1}) +
                 torch::full({4, 6}, 0.25);
        }},
       {"counted",
        [](auto& in) {
          return torch::arange(in.x.size(0)).unsqueeze(1) + torch::arange(1, 4, torch::kLong) * 2;
        }},
       {"eye", [](auto& in) { return torch::eye(4) + in.x.matmul(in.x.transpose(1, 2)); }},
       {"one_hot", [](auto& in) { return torch::one_hot(in.i, 4); }},
       {"per_size", [](auto& in) { return in.x / in.x.size(0); }}});
}

OnnxModel reductions() {
  return model_of(
      "reductions",
      {{"sum",
        [](auto& in) {
          return in.x.sum({1, 2}) + in.x.sum(2, true).squeeze(2).select(1, 0);
        }},
       {"sum_mask", [](auto& in) { return in.m.sum(1); }},
       {"mean",
        [](auto& in) { return in.x.mean(1) + in.x.mean({2}, true).select(1, 0) + in.x.mean(); }},
       {"max", [](auto& in) { return std::get<0>(in.x.max(1)); }},
       {"max_place", [](auto& in) { return std::get<1>(in.x.max(2, true)); }},
       {"min", [](auto& in) { return std::get<0>(in.x.min(1)) + in.x.max(); }},
       {"amax",
        [](auto& in) {
          return in.x.amax({1, 2}) + in.x.amin({1, 2});
        }},
       {"argmax", [](auto& in) { return in.x.argmax(1) + in.x.argmin(1, true).squeeze(1); }},
       {"any", [](auto& in) { return in.m.any(1).logical_or(in.m.all(1)); }},
       {"norm", [](auto& in) { return in.x.norm(2, 1) + in.x.norm(1, {1}, false); }},
       {"std", [](auto& in) { return in.x.std(1) + in.x.var(1, false); }},
       {"bucketize",
        [](auto& in) {
          return torch::bucketize(in.x, torch::tensor({-0.5F, 0.0F, 1.0F}));
        }},
       {"bucketize_right",
        [](auto& in) {
          return torch::bucketize(in.i, torch::tensor({0, 2}), false, true);
        }},
       {"cumsum", [](auto& in) { return in.x.cumsum(1); }},
       {"softmax", [](auto& in) { return in.x.softmax(2) + in.x.log_softmax(1); }},
       {"logsumexp", [](auto& in) { return in.x.logsumexp(1); }},
       {"prod", [](auto& in) { return in.x.prod(2); }},
       {"topk", [](auto& in) { return std::get<0>(in.x.topk(3, 2)); }},
       {"sort",
        [](auto& in) {
          return std::get<0>(in.x.sort(2, true)) + in.x.argsort(std::int64_t{2}, false);
        }},
       {"einsum",
        [](auto& in) {
          return torch::einsum("bij, bkj -> bik", {in.x, in.x});
        }},
       {"bmm", [](auto& in) { return torch::bmm(in.x, in.x.transpose(1, 2)); }},
       {"normalize",
        [](auto& in) {
          return torch::nn::functional::normalize(
              in.x, torch::nn::functional::NormalizeFuncOptions().dim(2));
        }},
       {"layer_norm",
        [](auto& in) {
          return torch::layer_norm(in.x, {4, 6});
        }},
       {"masked_mean", [](auto& in) {
          const auto w = in.m.to(torch::kFloat).unsqueeze(1);
          return (in.x * w).sum(2) / w.sum(2).clamp_min(1);
        }}});
}

}  // namespace

}  // namespace troupe::testing

TEST_SUITE_BEGIN("export");

TEST_CASE("onnx: operators give predict_step's numbers at other batch sizes") {
  troupe::testing::check_models(
      {troupe::testing::elementwise(), troupe::testing::shapes(), troupe::testing::reductions()});
}

TEST_SUITE_END();
