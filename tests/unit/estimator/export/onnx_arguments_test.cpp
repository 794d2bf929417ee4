// Every operator that the export covers, with odd arguments and extreme values: onnxruntime
// computes what LibTorch does, or the export is refused. docs/onnx.md has the outcome, row by row.
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/unit/estimator/export/onnx_check.h"

namespace troupe::testing::arguments {
namespace {

namespace F = torch::nn::functional;
using torch::indexing::None;
using torch::indexing::Slice;

/// One use of an operator. `extreme`: also with infinities, zeros of both signs and numbers that
/// are at the ends of float32.
struct Use {
  const char* op;
  const char* with;
  Op make;
  bool extreme = false;
  bool wide = false;  // of float64
};

#define OF(...) [](const OpInputs& in) -> at::Tensor { return __VA_ARGS__; }

at::Tensor whole(const OpInputs& in) { return in.i - 2; }
/// Weights, of x's type.
at::Tensor ramp(const OpInputs& in, at::IntArrayRef sizes, double by = 0.37) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return torch::sin(torch::arange(count, torch::kFloat64) * by).view(sizes).to(in.x.scalar_type());
}
at::Tensor image(const OpInputs& in) { return in.x.unsqueeze(1); }        // [B, 1, 4, 6]
at::Tensor volume(const OpInputs& in) { return image(in).unsqueeze(2); }  // [B, 1, 1, 4, 6]

std::vector<Use> elementwise() {
  return {
      {"__and__", "truth values", OF(torch::__and__(in.m, in.i > 1))},
      {"__and__", "whole numbers", OF(torch::__and__(in.i, 1))},
      {"__or__", "truth values", OF(torch::__or__(in.m, in.i > 1))},
      {"__or__", "whole numbers", OF(torch::__or__(in.i, 1))},
      {"__xor__", "truth values", OF(torch::__xor__(in.m, in.i > 1))},
      {"__xor__", "whole numbers", OF(torch::__xor__(in.i, 1))},
      {"abs", "", OF(in.x.abs()), true},
      {"abs", "whole numbers", OF(whole(in).abs())},
      {"acos", "", OF(in.x.acos()), true},
      {"acos", "whole numbers", OF(whole(in).acos())},
      {"add", "alpha", OF(torch::add(in.x, in.y, 2.5)), true},
      {"add", "whole numbers, alpha", OF(torch::add(in.i, in.i, 3))},
      {"add", "whole and real", OF(in.i + in.x.select(1, 0))},
      {"add", "truth values", OF(in.m + in.m)},
      {"asin", "", OF(in.x.asin()), true},
      {"atan", "", OF(in.x.atan()), true},
      {"bitwise_and", "truth values", OF(in.m.bitwise_and(in.i > 1))},
      {"bitwise_and", "whole numbers", OF(in.i.bitwise_and(1))},
      {"bitwise_not", "truth values", OF(in.m.bitwise_not())},
      {"bitwise_not", "whole numbers", OF(in.i.bitwise_not())},
      {"bitwise_or", "truth values", OF(in.m.bitwise_or(in.i > 1))},
      {"bitwise_or", "whole numbers", OF(in.i.bitwise_or(1))},
      {"bitwise_xor", "truth values", OF(in.m.bitwise_xor(in.i > 1))},
      {"bitwise_xor", "whole numbers", OF(in.i.bitwise_xor(1))},
      {"ceil", "", OF(in.x.ceil()), true},
      {"ceil", "whole numbers", OF(in.i.ceil())},
      {"clamp", "both", OF(in.x.clamp(-0.5, 0.5)), true},
      {"clamp", "the least above the most", OF(in.x.clamp(0.5, -0.5)), true},
      {"clamp", "the most alone", OF(in.x.clamp(c10::nullopt, 0.5)), true},
      {"clamp", "whole numbers, real bounds", OF(in.i.clamp(0.5, 1.5))},
      {"clamp", "tensors", OF(torch::clamp(in.x, -in.y.abs(), in.y.abs())), true},
      {"clamp_max", "", OF(in.x.clamp_max(0.1)), true},
      {"clamp_max", "whole numbers", OF(in.i.clamp_max(2))},
      {"clamp_min", "", OF(in.x.clamp_min(0.1)), true},
      {"clamp_min", "a tensor", OF(in.x.clamp_min(in.y)), true},
      {"cos", "", OF(in.x.cos())},
      {"cosh", "", OF(in.x.cosh()), true},
      {"div", "by zero",
       OF(in.x / (in.i - 1).unsqueeze(1).to(torch::kFloat).select(2, 0).unsqueeze(2))},
      {"div", "whole numbers", OF(whole(in) / 3)},
      {"div", "whole numbers, floor", OF(torch::div(whole(in), 2, "floor"))},
      {"div", "whole numbers, trunc", OF(torch::div(whole(in), 2, "trunc"))},
      {"div", "floor", OF(torch::div(in.x, 0.3, "floor")), true},
      {"div", "floor, quotients that are nearly whole", OF(torch::div(in.i * 0.1, 0.1, "floor"))},
      {"div", "floor, by a tensor", OF(torch::div(in.x, in.y, "floor")), true},
      {"div", "trunc", OF(torch::div(in.x, -0.3, "trunc")), true},
      {"eq", "real and whole", OF(in.x.select(1, 0).round() == in.i)},
      {"eq", "beyond float32's whole numbers", OF((in.i + 16777216) == 16777217)},
      {"eq", "", OF(in.x == 0), true},
      {"erf", "", OF(in.x.erf()), true},
      {"exp", "", OF(in.x.exp()), true},
      {"exp", "whole numbers", OF(whole(in).exp())},
      {"floor", "", OF(in.x.floor()), true},
      {"floor", "whole numbers", OF(in.i.floor())},
      {"ge", "", OF(in.x >= in.y), true},
      {"ge", "whole and real", OF(in.i >= 1.5)},
      {"ge", "truth values", OF(in.m >= in.m.flip(1))},
      {"gt", "", OF(in.x > in.y), true},
      {"gt", "int8 and uint8", OF((in.i * 60).to(torch::kUInt8) > whole(in).to(torch::kInt8))},
      {"gt", "int32 and int64", OF(in.i.to(torch::kInt32) > in.i.flip(1))},
      {"hardtanh", "bounds", OF(torch::hardtanh(in.x, -0.3, 0.7)), true},
      {"le", "", OF(in.x <= in.y), true},
      {"log", "", OF(in.x.log()), true},
      {"log", "whole numbers", OF(in.i.log())},
      {"log1p", "", OF(in.x.log1p()), true},
      {"logical_and", "real numbers", OF(in.x.logical_and(in.y)), true},
      {"logical_not", "real numbers", OF(in.x.logical_not()), true},
      {"logical_not", "whole numbers", OF(in.i.logical_not())},
      {"logical_or", "whole numbers", OF(in.i.logical_or(in.m))},
      {"logical_xor", "whole numbers", OF(in.i.logical_xor(in.m))},
      {"lt", "", OF(in.x < in.y), true},
      {"masked_fill", "infinity", OF(in.x.masked_fill(in.m.unsqueeze(1), -INFINITY)), true},
      {"masked_fill", "whole numbers", OF(in.i.masked_fill(in.m, -7))},
      {"masked_fill", "a tensor's value",
       OF(in.x.masked_fill(in.m.unsqueeze(1), torch::tensor(2.5F)))},
      {"maximum", "", OF(torch::maximum(in.x, in.y)), true},
      {"maximum", "whole numbers", OF(torch::maximum(in.i, in.i.flip(1)))},
      {"maximum", "whole and real", OF(torch::maximum(in.i, in.x.select(1, 0)))},
      {"minimum", "", OF(torch::minimum(in.x, in.y)), true},
      {"minimum", "uint8",
       OF(torch::minimum(in.i.to(torch::kUInt8), in.i.flip(1).to(torch::kUInt8)))},
      {"mul", "", OF(in.x * in.y), true},
      {"mul", "truth values", OF(in.m * in.m.flip(1))},
      {"mul", "whole numbers", OF(in.i * -3)},
      {"ne", "", OF(in.x != in.y), true},
      {"neg", "", OF(-in.x), true},
      {"neg", "uint8", OF(-in.i.to(torch::kUInt8))},
      {"pow", "whole exponents", OF(in.x.pow(3)), true},
      {"pow", "real exponents", OF(in.x.pow(-0.5)), true},
      {"pow", "a half", OF(in.x.pow(0.5)), true},
      {"pow", "by a tensor", OF(in.x.abs().pow(in.y)), true},
      {"pow", "of a number", OF(torch::pow(2, in.x)), true},
      {"pow", "whole numbers", OF(whole(in).pow(3))},
      {"pow", "whole numbers beyond 2^53", OF((in.i + 100000000).pow(2) + 1)},
      {"reciprocal", "", OF(in.x.reciprocal()), true},
      {"reciprocal", "whole numbers", OF(in.i.reciprocal())},
      {"remainder", "", OF(in.x.remainder(0.7)), true},
      {"remainder", "of a negative number", OF(in.x.remainder(-0.7)), true},
      {"remainder", "by a tensor", OF(in.x.remainder(in.y)), true},
      {"remainder", "large", OF((in.x * 1e6).remainder(0.7))},
      {"remainder", "whole numbers", OF(whole(in).remainder(-3))},
      {"round", "", OF((in.x * 2).round() / 2), true},
      {"round", "halves", OF((in.i - 1.5).round())},
      {"round", "decimals", OF(torch::round(in.x, 2))},
      {"rsqrt", "", OF(in.x.rsqrt()), true},
      {"rsqrt", "whole numbers", OF(in.i.rsqrt())},
      {"rsub", "", OF(torch::rsub(in.x, 1)), true},
      {"rsub", "alpha", OF(torch::rsub(in.x, in.y, 2))},
      {"sign", "", OF(in.x.sign()), true},
      {"sign", "whole numbers", OF(whole(in).sign())},
      {"sin", "", OF(in.x.sin())},
      {"sinh", "", OF(in.x.sinh()), true},
      {"sqrt", "", OF(in.x.sqrt()), true},
      {"square", "", OF(in.x.square()), true},
      {"square", "whole numbers", OF(whole(in).square())},
      {"sub", "alpha", OF(torch::sub(in.x, in.y, 0.3)), true},
      {"sub", "whole numbers", OF(in.i - 5)},
      {"tan", "", OF(in.x.tan())},
      {"where", "", OF(torch::where(in.x > 0, in.x, in.y * 2)), true},
      {"where", "numbers", OF(torch::where(in.m, 1.5, -2.0))},
      {"where", "whole and real", OF(torch::where(in.m, in.i, in.x.select(1, 0)))},
  };
}

std::vector<Use> activations() {
  return {
      {"dropout", "outside training", OF(torch::dropout(in.x, 0.5, false)), true},
      {"dropout", "in training", OF(torch::dropout(in.x, 0.5, true))},
      {"elu", "alpha", OF(torch::elu(in.x, 0.7)), true},
      {"elu", "a scale", OF(torch::elu(in.x, 0.7, 2))},
      {"feature_dropout", "outside training", OF(torch::feature_dropout(image(in), 0.5, false))},
      {"gelu", "", OF(torch::gelu(in.x))},
      {"gelu", "tanh", OF(torch::gelu(in.x, "tanh")), true},
      {"glu", "", OF(torch::glu(in.x, -2))},
      {"hardsigmoid", "", OF(torch::hardsigmoid(in.x)), true},
      {"hardswish", "", OF(torch::hardswish(in.x)), true},
      {"leaky_relu", "a negative slope", OF(torch::leaky_relu(in.x, -0.2)), true},
      {"log_sigmoid", "", OF(torch::log_sigmoid(in.x)), true},
      {"mish", "", OF(torch::mish(in.x)), true},
      {"prelu", "one slope", OF(torch::prelu(in.x, ramp(in, {1}))), true},
      {"prelu", "a slope a channel", OF(torch::prelu(in.x, ramp(in, {4}, 2))), true},
      {"relu", "", OF(torch::relu(in.x)), true},
      {"relu", "whole numbers", OF(torch::relu(whole(in)))},
      {"relu6", "", OF(torch::relu6(in.x * 5)), true},
      {"selu", "", OF(torch::selu(in.x)), true},
      {"sigmoid", "", OF(torch::sigmoid(in.x)), true},
      {"sigmoid", "whole numbers", OF(torch::sigmoid(whole(in)))},
      {"silu", "", OF(torch::silu(in.x)), true},
      {"softplus", "", OF(F::softplus(in.x)), true},
      {"softplus", "beta", OF(F::softplus(in.x, F::SoftplusFuncOptions().beta(2)))},
      {"softplus", "threshold", OF(F::softplus(in.x, F::SoftplusFuncOptions().threshold(0.5)))},
      {"softsign", "", OF(F::softsign(in.x)), true},
      {"tanh", "", OF(torch::tanh(in.x)), true},
  };
}

std::vector<Use> shapes() {
  return {
      {"_pad_enum", "reflect", OF(F::pad(in.x, F::PadFuncOptions({2, 1}).mode(torch::kReflect))),
       true},
      {"_pad_enum", "in a circle",
       OF(F::pad(in.x, F::PadFuncOptions({2, 1}).mode(torch::kCircular)))},
      {"alias", "", OF(torch::alias(in.x)), true},
      {"cat", "whole and real, a negative dimension",
       OF(torch::cat({in.i, in.x.select(1, 0)}, -1))},
      {"chunk", "uneven", OF(in.x.chunk(4, 2).back()), true},
      {"clone", "", OF(in.x.clone()), true},
      {"concat", "", OF(torch::concat({in.x, in.y}, 1)), true},
      {"constant_pad_nd", "", OF(torch::constant_pad_nd(in.x, {1, 2, 0, 1}, -INFINITY)), true},
      {"constant_pad_nd", "less than nothing", OF(torch::constant_pad_nd(in.x, {-1, 2, 1, -2}, 3))},
      {"constant_pad_nd", "whole numbers", OF(torch::constant_pad_nd(in.i, {1, 0}, 9))},
      {"constant_pad_nd", "truth values", OF(torch::constant_pad_nd(in.m, {1, 0}, 1))},
      {"contiguous", "", OF(in.x.transpose(1, 2).contiguous()), true},
      {"detach", "", OF(in.x.detach()), true},
      {"expand", "", OF(in.y.expand({-1, 3, 6})), true},
      {"expand", "more dimensions",
       OF(in.y.select(1, 0).select(0, 0).expand({2, 3, 6}) + in.y.unsqueeze(1))},
      {"expand_as", "", OF(in.y.expand_as(in.x)), true},
      {"flatten", "", OF(in.x.flatten(-2)), true},
      {"flip", "", OF(in.x.flip({-1, 1})), true},
      {"flip", "no dimension", OF(in.x.flip(std::vector<std::int64_t>{})), true},
      {"gather", "a negative dimension", OF(in.x.gather(-1, in.i.unsqueeze(1))), true},
      {"index", "negative numbers", OF(in.x.index({Slice(), torch::tensor({-1, 0, -3})})), true},
      {"index", "two indices", OF(in.x.index({torch::arange(in.x.size(0)), in.i.select(1, 0)}))},
      {"index", "a mask", OF(in.x.select(1, 0).index({in.m}).sum() + in.y)},
      {"index", "two indices apart",
       OF(in.x.index({torch::arange(in.x.size(0)), Slice(), in.i.select(1, 0)}))},
      {"index_select", "", OF(in.x.index_select(-1, torch::tensor({5, 0, 0}))), true},
      {"mT", "", OF(in.x.mT()), true},
      {"narrow", "", OF(in.x.narrow(2, 1, 3)), true},
      {"narrow", "a negative start, to the end", OF(in.x.narrow(2, -2, 2)), true},
      {"narrow", "a negative start", OF(in.x.narrow(2, -3, 2))},
      {"numpy_T", "",
       OF(in.i.numpy_T().select(0, 1).unsqueeze(1) + in.y.select(1, 0).to(torch::kLong))},
      {"pad", "replicate", OF(torch::pad(in.x, {2, 1}, "replicate")), true},
      {"pad", "reflect", OF(torch::pad(image(in), {2, 1, 1, 3}, "reflect")), true},
      {"pad", "a value", OF(torch::pad(in.x, {2, 1}, "constant", 2.5)), true},
      {"pad", "in a circle", OF(torch::pad(in.x, {2, 1}, "circular"))},
      {"permute", "", OF(in.x.permute({0, -1, 1})), true},
      {"pixel_shuffle", "", OF(torch::pixel_shuffle(in.x.unsqueeze(2), 2)), true},
      {"pixel_shuffle", "more dimensions", OF(torch::pixel_shuffle(image(in).unsqueeze(3), 2))},
      {"reflection_pad1d", "", OF(torch::reflection_pad1d(in.x, {3, 2})), true},
      {"reflection_pad2d", "", OF(torch::reflection_pad2d(image(in), {3, 2, 1, 0})), true},
      {"repeat", "", OF(in.x.repeat({1, 2, 3})), true},
      {"repeat", "more dimensions", OF(in.i.repeat({2, 1, 2}).transpose(0, 1))},
      {"replication_pad1d", "", OF(torch::replication_pad1d(in.x, {7, 9})), true},
      {"replication_pad2d", "", OF(torch::replication_pad2d(image(in), {3, 2, 5, 0})), true},
      {"reshape", "", OF(in.x.reshape({-1, 3, 8})), true},
      {"reshape_as", "", OF(in.x.slice(1, 0, 1).reshape_as(in.y)), true},
      {"select", "negative", OF(in.x.select(-1, -2)), true},
      {"slice", "beyond the end, steps", OF(in.x.slice(2, 1, 99, 2)), true},
      {"slice", "negative", OF(in.x.slice(-1, -4, -1)), true},
      {"slice", "nothing", OF(in.x.slice(2, 4, 2))},
      {"split", "uneven", OF(in.x.split(4, 2)[1]), true},
      {"split_with_sizes", "", OF(in.x.split_with_sizes({1, 0, 3}, 1)[2]), true},
      {"squeeze", "", OF(in.y.squeeze(-2)), true},
      {"stack", "", OF(torch::stack({in.x, in.x * 2}, -2)), true},
      {"stack", "whole and real", OF(torch::stack({in.i, in.x.select(1, 0)}, 1))},
      {"swapaxes", "", OF(in.x.swapaxes(1, -1)), true},
      {"swapdims", "", OF(in.x.swapdims(-1, 1)), true},
      {"t", "", OF(in.i.t().select(0, 2).unsqueeze(1) * in.i)},
      {"to", "whole numbers", OF((in.x * 3).to(torch::kInt32))},
      {"to", "truth values", OF(in.x.round().to(torch::kBool)), true},
      {"to", "float16", OF(in.x.to(torch::kFloat16)), true},
      {"to", "int8", OF((in.x * 9).to(torch::kInt8))},
      {"transpose", "", OF(in.x.transpose(-1, -2)), true},
      {"tril", "", OF(in.x.tril(2)), true},
      {"tril", "far below", OF(in.x.tril(-9)), true},
      {"tril", "whole numbers", OF(in.i.unsqueeze(1).expand({-1, 3, -1}).tril())},
      {"tril", "truth values", OF(in.m.unsqueeze(1).expand({-1, 3, -1}).tril())},
      {"triu", "", OF(in.x.triu(-1)), true},
      {"type_as", "", OF(in.i.type_as(in.x))},
      {"unbind", "", OF(in.x.unbind(-1)[4]), true},
      {"unflatten", "", OF(in.x.unflatten(-1, std::vector<std::int64_t>{-1, 3})), true},
      {"unsqueeze", "negative", OF(in.x.unsqueeze(-2)), true},
      {"view", "", OF(in.x.view({-1, 2, 12})), true},
      {"view_as", "", OF(in.x.slice(1, 0, 1).contiguous().view_as(in.y)), true},
  };
}

std::vector<Use> made() {
  return {
      {"arange", "real steps", OF(in.y + torch::arange(0.0, 0.6, 0.1))},
      {"arange", "real steps, a last one that rounds away",
       OF(in.x.slice(2, 0, 3) + torch::arange(0.0, 0.3, 0.1))},
      {"arange", "downwards", OF(in.i + torch::arange(6, 0, -1))},
      {"arange", "of the batch", OF(in.y + torch::arange(in.y.size(0)).view({-1, 1, 1}))},
      {"empty", "filled", OF(torch::empty({in.x.size(0), 2}).fill_(3))},
      {"empty_like", "filled", OF(torch::empty_like(in.x).zero_())},
      {"eye", "not square", OF(in.x + torch::eye(4, 6))},
      {"fill", "", OF(in.x.clone().fill_(2.5))},
      {"fill", "whole numbers, a real number", OF(in.i.clone().fill_(2.5))},
      {"full", "infinity", OF(torch::full({in.x.size(0), 2}, -INFINITY))},
      {"full_like", "", OF(torch::full_like(in.i, 7))},
      {"new_empty", "filled", OF(in.x.new_empty({in.x.size(0), 3}).fill_(1))},
      {"new_full", "", OF(in.i.new_full({in.i.size(0), 3}, -4))},
      {"new_ones", "", OF(in.m.new_ones({in.i.size(0), 3}))},
      {"new_zeros", "", OF(in.x.new_zeros({in.i.size(0), 3}))},
      {"one_hot", "", OF(torch::one_hot(in.i, 7))},
      {"one_hot", "classes by the values", OF(torch::one_hot(in.i))},
      {"ones", "", OF(torch::ones({in.x.size(0), 2}, torch::kFloat64))},
      {"ones_like", "", OF(torch::ones_like(in.m))},
      {"scalar_tensor", "", OF(in.x * torch::scalar_tensor(0.1))},
      {"zero", "", OF(in.x.clone().zero_()), true},
      {"zeros", "", OF(torch::zeros({in.x.size(0), 2}, torch::kInt32))},
      {"zeros_like", "", OF(torch::zeros_like(in.i))},
  };
}

std::vector<Use> reductions() {
  return {
      {"all", "", OF(in.m.all(-1))},
      {"all", "real numbers", OF(in.x.all(1, true)), true},
      {"amax", "", OF(in.x.amax({-1, 1}, true)), true},
      {"amax", "whole numbers", OF(in.i.amax(1))},
      {"amin", "", OF(in.x.amin(1)), true},
      {"any", "", OF(in.m.any(1, true))},
      {"argmax", "", OF(in.x.argmax(-1)), true},
      {"argmax", "of values that occur twice", OF(in.i.argmax(1))},
      {"argmax", "of all", OF(in.x.argmax() + in.i)},
      {"argmin", "", OF(in.x.argmin(1, true)), true},
      {"argsort", "", OF(in.x.argsort(std::int64_t{-1}, true))},
      {"bucketize", "", OF(torch::bucketize(in.x, torch::tensor({-0.5F, 0.0F, 1.0F}))), true},
      {"bucketize", "right", OF(torch::bucketize(in.i, torch::tensor({0, 2}), false, true))},
      {"cumsum", "", OF(in.x.cumsum(-1))},
      {"cumsum", "truth values", OF(in.m.cumsum(1))},
      {"frobenius_norm", "", OF(torch::frobenius_norm(in.x, {1, 2}, true))},
      {"linalg_vector_norm", "",
       OF(torch::linalg_vector_norm(in.x, 2, std::vector<std::int64_t>{-1}, true))},
      {"linalg_vector_norm", "power 1",
       OF(torch::linalg_vector_norm(in.x, 1, std::vector<std::int64_t>{1}, false))},
      {"linalg_vector_norm", "infinite power",
       OF(torch::linalg_vector_norm(in.x, INFINITY, std::vector<std::int64_t>{1}, false))},
      {"log_softmax", "", OF(in.x.log_softmax(-2))},
      {"log_softmax", "large", OF((in.x * 1e4).log_softmax(1))},
      {"logsumexp", "", OF(in.x.logsumexp(-1, true))},
      {"logsumexp", "large", OF((in.x * 1e4).logsumexp(1))},
      {"logsumexp", "of nothing but minus infinity",
       OF(in.x.masked_fill(in.m.unsqueeze(1), -INFINITY).logsumexp(1))},
      {"max", "of all", OF(in.y + in.x.max()), true},
      {"max", "along a dimension", OF(std::get<0>(in.x.max(-1, true))), true},
      {"max", "places", OF(std::get<1>(in.x.max(1))), true},
      {"max", "whole numbers, places of values that occur twice", OF(std::get<1>(in.i.max(1)))},
      {"max", "of two", OF(torch::max(in.x, in.y)), true},
      {"mean", "", OF(in.x.mean({-1, 1}, true))},
      {"mean", "whole numbers as real", OF(in.i.mean(1, false, torch::kFloat32))},
      {"min", "along a dimension", OF(std::get<0>(in.x.min(-1))), true},
      {"min", "places", OF(std::get<1>(in.x.min(1, true))), true},
      {"norm", "", OF(in.x.norm(2, {-1}, true))},
      {"norm", "power 1", OF(in.x.norm(1, {1}, false))},
      {"norm", "power 3", OF(in.x.norm(3, {1}, false))},
      {"norm", "large", OF((in.x * 1e25).norm(2, {1}, false))},
      {"prod", "", OF(in.x.prod(-1, true))},
      {"prod", "whole numbers", OF(in.i.prod(1))},
      {"softmax", "", OF(in.x.softmax(-1))},
      {"softmax", "large", OF((in.x * 1e4).softmax(1))},
      {"softmax", "masked", OF(in.x.masked_fill(in.m.unsqueeze(1), -INFINITY).softmax(-1))},
      {"softmax", "whole numbers as float64", OF(in.i.softmax(1, torch::kFloat64))},
      {"sort", "", OF(std::get<0>(in.x.sort(-1, true))), true},
      {"sort", "places of values that occur twice",
       OF(std::get<1>(torch::sort(in.i, /*stable=*/true, 1, /*descending=*/false)))},
      {"sort", "downwards, places of values that occur twice",
       OF(std::get<1>(torch::sort(in.i, /*stable=*/true, 1, /*descending=*/true)))},
      {"sort", "int32", OF(std::get<0>(in.i.to(torch::kInt32).sort(1)))},
      {"std", "", OF(in.x.std(std::vector<std::int64_t>{1}, true, true))},
      {"std", "about a mean that is large", OF((in.x + 1e4).std(1))},
      {"std", "of one value", OF(in.y.std(1))},
      {"sum", "", OF(in.x.sum({-1, 1}))},
      {"sum", "truth values", OF(in.m.sum(1, true))},
      {"sum", "int32", OF(in.i.to(torch::kInt32).sum(1))},
      {"sum", "of all", OF(in.y + in.x.sum())},
      {"topk", "", OF(std::get<0>(in.x.topk(3, -1))), true},
      {"topk", "the smallest, places", OF(std::get<1>(in.x.topk(2, 1, false))), true},
      {"topk", "in any order", OF(std::get<0>(in.x.topk(3, -1, true, false)))},
      {"var", "", OF(in.x.var(std::vector<std::int64_t>{1, 2}, false, true))},
      {"var", "correction 2", OF(in.x.var(std::vector<std::int64_t>{1}, 2, false))},
  };
}

std::vector<Use> layers() {
  return {
      {"_convolution", "",
       OF(torch::_convolution(in.x, ramp(in, {8, 4, 3}), ramp(in, {8}), {1}, {1}, {1}, false, {0},
                              1, false, false, false, false))},
      {"adaptive_avg_pool1d", "to one", OF(torch::adaptive_avg_pool1d(in.x, 1)), false},
      {"adaptive_avg_pool1d", "that divides", OF(torch::adaptive_avg_pool1d(in.x, 3))},
      {"adaptive_avg_pool1d", "that does not", OF(torch::adaptive_avg_pool1d(in.x, 4))},
      {"adaptive_avg_pool2d", "", OF(torch::adaptive_avg_pool2d(image(in), {2, 3}))},
      {"adaptive_avg_pool2d", "that does not divide",
       OF(torch::adaptive_avg_pool2d(image(in), {3, 3}))},
      {"adaptive_avg_pool3d", "", OF(torch::adaptive_avg_pool3d(volume(in), {1, 2, 3}))},
      {"adaptive_max_pool1d", "", OF(std::get<0>(torch::adaptive_max_pool1d(in.x, 2))), true},
      {"adaptive_max_pool1d", "places", OF(std::get<1>(torch::adaptive_max_pool1d(in.x, 2)))},
      {"adaptive_max_pool2d", "", OF(std::get<0>(torch::adaptive_max_pool2d(image(in), {2, 2}))),
       true},
      {"addmm", "factors",
       OF(torch::addmm(ramp(in, {5}), in.x.select(1, 0), ramp(in, {6, 5}), 0.5, 2))},
      {"addmm", "factor 0 of infinity",
       OF(torch::addmm(torch::full({5}, INFINITY, in.x.options()), in.x.select(1, 0),
                       ramp(in, {6, 5}), 0, 1))},
      {"avg_pool1d", "padding that counts", OF(torch::avg_pool1d(in.x, 3, 2, 1))},
      {"avg_pool1d", "padding that does not", OF(torch::avg_pool1d(in.x, 3, 2, 1, false, false))},
      {"avg_pool1d", "ceil_mode", OF(torch::avg_pool1d(in.x, 3, 2, 0, true))},
      {"avg_pool2d", "", OF(torch::avg_pool2d(image(in), {2, 3}, {1, 2}, {1, 0}, false, false))},
      {"avg_pool2d", "divisor_override", OF(torch::avg_pool2d(image(in), 2, 2, 0, false, true, 3))},
      {"avg_pool3d", "", OF(torch::avg_pool3d(volume(in), {1, 2, 2}))},
      {"baddbmm", "factors",
       OF(torch::baddbmm(in.x.matmul(in.x.transpose(1, 2)), in.x, in.x.transpose(1, 2), 0.5, 2))},
      {"batch_norm", "",
       OF(torch::batch_norm(in.x, ramp(in, {4}), ramp(in, {4}, 0.2), ramp(in, {4}, 0.9),
                            ramp(in, {4}).abs() + 0.1, false, 0.1, 1e-3, false))},
      {"batch_norm", "without weights",
       OF(torch::batch_norm(in.x, {}, {}, ramp(in, {4}, 0.9), ramp(in, {4}).abs() + 0.1, false, 0.1,
                            1e-5, false))},
      {"batch_norm", "by its batch",
       OF(torch::batch_norm(in.x, {}, {}, {}, {}, true, 0.1, 1e-5, false))},
      {"bmm", "", OF(torch::bmm(in.x, in.x.transpose(1, 2)))},
      {"conv1d", "stride, padding, dilation, groups",
       OF(torch::conv1d(in.x, ramp(in, {6, 2, 2}), ramp(in, {6}), 2, 3, 2, 2))},
      {"conv1d", "same padding",
       OF(torch::conv1d(in.x, ramp(in, {6, 4, 3}), ramp(in, {6}), 1, "same"))},
      {"conv1d", "without a batch",
       OF(torch::conv1d(in.x.select(0, 0), ramp(in, {6, 4, 3})).unsqueeze(0).select(2, 0) +
          in.y.select(1, 0))},
      {"conv2d", "uneven",
       OF(torch::conv2d(image(in), ramp(in, {3, 1, 2, 3}), {}, {1, 2}, {1, 0}, {1, 2}))},
      {"conv3d", "", OF(torch::conv3d(volume(in), ramp(in, {2, 1, 1, 2, 2}), ramp(in, {2})))},
      {"convolution", "transposed",
       OF(torch::convolution(in.x, ramp(in, {4, 3, 3}), ramp(in, {6}), {2}, {1}, {1}, true, {1},
                             2))},
      {"dot", "", OF(in.y + torch::dot(ramp(in, {6}), ramp(in, {6}, 0.7)))},
      {"einsum", "", OF(torch::einsum("bij,bkj->bik", {in.x, in.x}))},
      {"einsum", "dots", OF(torch::einsum("b...j,b...j->b...", {in.x, in.x}))},
      {"einsum", "capital letters", OF(torch::einsum("bIJ,bKJ->bIK", {in.x, in.x}))},
      {"einsum", "no arrow",
       OF(torch::einsum("bij,bij->bj", {in.x, in.x}) +
          torch::einsum("bij,cij", {in.x, in.x}).sum())},
      {"einsum", "a diagonal", OF(torch::einsum("bii->bi", {in.x.slice(2, 0, 4)}))},
      {"embedding", "", OF(torch::embedding(ramp(in, {4, 3}), in.i, 1))},
      {"group_norm", "", OF(torch::group_norm(in.x, 2, ramp(in, {4}), ramp(in, {4}, 0.2), 1e-3))},
      {"group_norm", "[B, C]", OF(torch::group_norm(in.x.select(1, 0), 3))},
      {"instance_norm", "",
       OF(torch::instance_norm(in.x, ramp(in, {4}), ramp(in, {4}), {}, {}, true, 0.1, 1e-3,
                               false))},
      {"instance_norm", "by running statistics",
       OF(torch::instance_norm(in.x, {}, {}, ramp(in, {4}), ramp(in, {4}).abs() + 1, false, 0.1,
                               1e-5, false))},
      {"layer_norm", "", OF(torch::layer_norm(in.x, {4, 6}, ramp(in, {4, 6}), {}, 1e-3))},
      {"layer_norm", "of values that are all equal", OF(torch::layer_norm(in.x * 0 + 3, {6}))},
      {"linear", "", OF(torch::linear(in.x, ramp(in, {5, 6}), ramp(in, {5})))},
      {"linear", "of one dimension",
       OF(in.y.select(2, 0) + torch::linear(ramp(in, {6}), ramp(in, {5, 6})))},
      {"matmul", "broadcast", OF(torch::matmul(in.x, ramp(in, {2, 1, 6, 3})).transpose(0, 1))},
      {"matmul", "by a vector", OF(torch::matmul(in.x, ramp(in, {6})))},
      {"max_pool1d", "padding, dilation", OF(torch::max_pool1d(in.x, 2, 1, 1, 2)), true},
      {"max_pool1d", "ceil_mode", OF(torch::max_pool1d(in.x, 4, 4, 0, 1, true))},
      {"max_pool2d", "", OF(torch::max_pool2d(image(in), {2, 3}, {1, 1}, {1, 1})), true},
      {"max_pool3d", "", OF(torch::max_pool3d(volume(in), {1, 2, 2})), true},
      {"mm", "", OF(torch::mm(in.x.select(1, 0), ramp(in, {6, 5})))},
      {"mv", "", OF(torch::mv(in.x.select(1, 0), ramp(in, {6})))},
      {"upsample_bilinear2d", "sizes",
       OF(F::interpolate(image(in), F::InterpolateFuncOptions()
                                        .size(std::vector<std::int64_t>{7, 5})
                                        .mode(torch::kBilinear)
                                        .align_corners(false)))},
      {"upsample_bilinear2d", "corners",
       OF(F::interpolate(image(in), F::InterpolateFuncOptions()
                                        .size(std::vector<std::int64_t>{1, 9})
                                        .mode(torch::kBilinear)
                                        .align_corners(true)))},
      {"upsample_bilinear2d", "factors",
       OF(F::interpolate(image(in), F::InterpolateFuncOptions()
                                        .scale_factor(std::vector<double>{1.3, 0.7})
                                        .mode(torch::kBilinear)
                                        .align_corners(false)))},
      {"upsample_nearest1d", "sizes",
       OF(F::interpolate(
           in.x,
           F::InterpolateFuncOptions().size(std::vector<std::int64_t>{11}).mode(torch::kNearest)))},
      {"upsample_nearest1d", "factor 1.3",
       OF(F::interpolate(in.x, F::InterpolateFuncOptions()
                                   .scale_factor(std::vector<double>{1.3})
                                   .mode(torch::kNearest)))},
      {"upsample_nearest1d", "factor 0.7",
       OF(F::interpolate(in.x, F::InterpolateFuncOptions()
                                   .scale_factor(std::vector<double>{0.7})
                                   .mode(torch::kNearest)))},
      {"upsample_nearest1d", "factor 1.3, from the size",
       OF(F::interpolate(in.x, F::InterpolateFuncOptions()
                                   .scale_factor(std::vector<double>{1.3})
                                   .recompute_scale_factor(true)
                                   .mode(torch::kNearest)))},
      {"upsample_nearest2d", "factors",
       OF(F::interpolate(image(in), F::InterpolateFuncOptions()
                                        .scale_factor(std::vector<double>{2.5, 0.4})
                                        .mode(torch::kNearest)))},
      {"upsample_nearest2d", "factor 3",
       OF(F::interpolate(image(in), F::InterpolateFuncOptions()
                                        .scale_factor(std::vector<double>{3, 3})
                                        .mode(torch::kNearest)))},
  };
}

/// A use of a layer, whose weights are the same in every run.
template <class Layer>
Op of_layer(Layer layer, double factor = 1) {
  const torch::NoGradGuard no_grad;
  double by = 0.1;
  for (at::Tensor& each : layer->parameters()) {
    each.copy_(torch::sin(torch::arange(each.numel()) * (by += 0.13)).view(each.sizes()));
    each.requires_grad_(false);
  }
  layer->eval();
  return [layer, factor](const OpInputs& in) mutable {
    layer->to(in.x.scalar_type());
    return std::get<0>(layer->forward(in.x * factor));
  };
}

std::vector<Use> recurrent() {
  const auto gru = torch::nn::GRUOptions(6, 5).batch_first(true);
  const auto lstm = torch::nn::LSTMOptions(6, 5).batch_first(true);
  using torch::nn::GRU;
  using torch::nn::LSTM;
  return {
      {"gru", "two layers, both directions",
       of_layer(GRU(torch::nn::GRUOptions(gru).num_layers(2).bidirectional(true)))},
      {"gru", "without biases, large", of_layer(GRU(torch::nn::GRUOptions(gru).bias(false)), 50)},
      {"lstm", "two layers, both directions",
       of_layer(LSTM(torch::nn::LSTMOptions(lstm).num_layers(2).bidirectional(true)))},
      {"lstm", "without biases, large",
       of_layer(LSTM(torch::nn::LSTMOptions(lstm).bias(false)), 50)},
      {"lstm", "a projection", of_layer(LSTM(torch::nn::LSTMOptions(lstm).proj_size(2)))},
      {"rnn_tanh", "",
       of_layer(torch::nn::RNN(torch::nn::RNNOptions(6, 5).batch_first(true).bidirectional(true)))},
  };
}

std::vector<Use> all_uses() {
  std::vector<Use> all;
  for (auto* const of : {elementwise, activations, shapes, made, reductions, layers, recurrent}) {
    for (Use& use : of()) {
      all.push_back(use);
      use.wide = true;
      all.push_back(std::move(use));
    }
  }
  return all;
}

at::Tensor extremes() {
  const float most = 3e37F;
  return torch::tensor({0.F,  -0.F,   1e-30F, -1e-30F, 1e30F, -1e30F, INFINITY, -INFINITY,
                        80.F, -100.F, 0.5F,   -0.5F,   1.5F,  2.5F,   -1.5F,    -2.5F,
                        1.F,  -1.F,   20.5F,  -20.5F,  most,  -most,  1e-7F,    0.3F})
      .view({1, 4, 6});
}

OnnxModel model_of_use(const Use& use) {
  OnnxModel model = model_of("use", {{"out", use.make}});
  const auto ordinary = model.examples;
  model.examples = [ordinary, extreme = use.extreme, wide = use.wide](std::int64_t count,
                                                                      std::int64_t length) {
    Tensors tensors = ordinary(count, length);
    if (extreme && count == 16) {  // the last of the cases
      tensors[0] = extremes().repeat({16, 1, 1});
      tensors[1] = extremes().roll(5).slice(1, 1, 2).repeat({16, 1, 1});
    }
    for (std::size_t i = 0; wide && i < 2; ++i) tensors[i] = tensors[i].to(torch::kFloat64);
    return tensors;
  };
  return model;
}

/// What became of the uses, in their order: "" for what is equal, "differs: ...", or the refusal.
std::vector<std::string> outcomes(const std::vector<Use>& uses, bool& was_run) {
  const TempDir dir;
  std::vector<std::string> folders;
  std::map<std::string, std::size_t> exported;
  std::vector<std::string> all(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    INFO(text(uses[i].op, ", ", uses[i].with));
    const std::string name = text(i);
    try {
      export_with_cases(model_of_use(uses[i]), dir / name);
      exported.emplace(name, i);
      folders.push_back(dir / name);
    } catch (const ConfigError& error) {
      all[i] = error.what();
      CHECK(all[i].find("predict_step fails") == std::string::npos);  // no use of LibTorch's
      CHECK(all[i].find("please report it") == std::string::npos);
    }
  }
  folders.insert(folders.begin(), "--each");
  const ProcessResult result = check_onnx(folders);
  was_run = result.exit_code != kNothingHere;
  INFO(result.err);
  CHECK((!was_run || result.exit_code == 0));
  if (!was_run) std::cerr << result.out;  // what was skipped
  std::size_t answered = 0;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(": ");
    const auto found = exported.find(line.substr(0, colon));
    if (found == exported.end()) continue;
    ++answered;
    if (line.substr(colon + 2) != "equal")
      all[found->second] = "differs: " + line.substr(colon + 2);
  }
  CHECK((!was_run || answered == exported.size()));
  return all;
}

/// "| `div` | as it is; floor | whole numbers, floor |", by the operators' names. float64 is said
/// where it is another outcome than float32's.
std::vector<std::string> rows_of(const std::vector<Use>& uses,
                                 const std::vector<std::string>& outcome) {
  struct Row {
    std::vector<std::string> equal, refused;
    bool lacks_float64 = false;
  };
  std::map<std::string, Row> by_name;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    Row& row = by_name[uses[i].op];
    if (uses[i].wide) {
      row.lacks_float64 = row.lacks_float64 || (outcome[i - 1].empty() && !outcome[i].empty());
      continue;
    }
    (outcome[i].empty() ? row.equal : row.refused)
        .emplace_back(*uses[i].with == 0 ? "as it is" : uses[i].with);
  }
  std::vector<std::string> rows;
  for (auto& [name, row] : by_name) {
    if (row.lacks_float64) row.refused.emplace_back("float64");
    rows.push_back(
        text("| `", name, "` | ", join(row.equal, "; "), " | ", join(row.refused, "; "), " |"));
  }
  return rows;
}

std::set<std::string> covered_operators() {
  std::set<std::string> names;
  const std::regex name("\"aten::(\\w+)\"");
  for (const char* kind :
       {"activation", "creation", "elementwise", "layer", "recurrent", "reduction", "shape"}) {
    const std::string code =
        content_of(text(TROUPE_SOURCE_DIR, "/export/onnx/", kind, "_converters.cpp"));
    for (auto at = std::sregex_iterator(code.begin(), code.end(), name);
         at != std::sregex_iterator(); ++at)
      names.insert((*at)[1]);
  }
  return names;
}

}  // namespace

TEST_SUITE("export") {
  TEST_CASE("onnx: odd arguments and extreme values give LibTorch's numbers, or are refused") {
    const std::vector<Use> uses = all_uses();
    std::set<std::string> used;
    for (const Use& use : uses) used.insert(use.op);
    for (const std::string& name : covered_operators()) {
      CAPTURE(name);
      CHECK(used.count(name) == 1);
    }
    bool was_run = false;
    const std::vector<std::string> outcome = outcomes(uses, was_run);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      INFO(text(uses[i].op, ", ", uses[i].with, uses[i].wide ? ", float64: " : ": ", outcome[i]));
      CHECK(outcome[i].rfind("differs", 0) != 0);
      const bool by_type = uses[i].wide && outcome[i - 1].empty() && !outcome[i].empty();
      CHECK((!by_type || outcome[i].find("float64") != std::string::npos));
    }
    const std::string page = content_of(TROUPE_SOURCE_DIR "/docs/onnx.md");
    for (const std::string& row : rows_of(uses, outcome)) {
      INFO("docs/onnx.md is to have: ", row);
      CHECK(page.find(row) != std::string::npos);
    }
  }
}

}  // namespace troupe::testing::arguments
