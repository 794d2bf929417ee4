// Operators that compute one value from many along dimensions, or each from those before it.
#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

std::int64_t keeps(const Conversion& op) { return op.has("keepdim") && op.flag("keepdim") ? 1 : 0; }

/// A reduction of `value` by an operator that has the dimensions as an attribute; one without
/// dimensions to reduce is the value itself.
OnnxValue reduce(Conversion& op, const char* name, const OnnxValue& value, std::int64_t keep) {
  const Integers axes = op.axes("dim", op.rank());
  if (axes.empty()) return value;
  return op.graph.add(name, {value}, {{"axes", axes}, {"keepdims", keep}});
}

Converter reduction(const char* name) {
  return [name](Conversion& op) {
    op.give(reduce(op, name, op.as(op.result().element, "self"), keeps(op)));
  };
}

/// Of ReduceSum alone the dimensions are an input.
void sum(Conversion& op) {
  const OnnxValue self = op.as(op.result().element, "self");
  const Integers axes = op.axes("dim", op.rank());
  if (axes.empty()) return op.give(self);
  op.give(op.graph.add("ReduceSum", {self, op.graph.integers(axes)}, {{"keepdims", keeps(op)}}));
}

/// Of truth values, which ONNX reduces as numbers.
Converter reduction_of_truth(const char* name) {
  return [name](Conversion& op) {
    const OnnxValue truth = op.as(ElementType::boolean, "self");
    const OnnxValue numbers = op.graph.cast(truth, ElementType::int32);
    op.give(op.graph.cast(reduce(op, name, numbers, keeps(op)), ElementType::boolean));
  };
}

/// max and min: of two tensors, of a whole tensor, or along a dimension with places.
Converter extreme(const char* binary, const char* reduction, const char* place) {
  return [=](Conversion& op) {
    const ElementType element = op.result().element;
    if (op.has("other")) {
      op.give(op.graph.add(binary, {op.as(element, "self"), op.as(element, "other")}));
      return;
    }
    op.give(reduce(op, reduction, op["self"], keeps(op)));
    if (op.result_count() == 1) return;
    const std::int64_t axis = op.axis("dim", op.rank());
    op.give(op.graph.add(place, {op["self"]}, {{"axis", axis}, {"keepdims", keeps(op)}}), 1);
  };
}

Converter place_of_extreme(const char* name) {
  return [name](Conversion& op) {
    if (!op.has("dim")) {
      const OnnxValue flat = op.graph.add("Reshape", {op["self"], op.graph.integers({-1})});
      op.give(
          op.graph.add(name, {flat}, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}}));
      return;
    }
    const std::int64_t axis = op.axis("dim", op.rank());
    op.give(op.graph.add(name, {op["self"]}, {{"axis", axis}, {"keepdims", keeps(op)}}));
  };
}

/// How many boundaries are below each element; with `right`, or equal to it.
void bucketize(Conversion& op) {
  OnnxGraph& graph = op.graph;
  const ElementType element = op.tensor("boundaries").element;
  const OnnxValue self = graph.add("Unsqueeze", {op.as(element, "self"), graph.integers({-1})});
  const char* const compare = op.flag("right") ? "GreaterOrEqual" : "Greater";
  const OnnxValue passed =
      graph.cast(graph.add(compare, {self, op["boundaries"]}), op.result().element);
  op.give(graph.add("ReduceSum", {passed, graph.integers({-1})}, {{"keepdims", std::int64_t{0}}}));
}

void norm(Conversion& op) {
  const char* const power = op.has("ord") ? "ord" : "p";
  const double p = op.real(power, 2);
  if (p != 1 && p != 2) op.refuse("of another power than 1 or 2");
  op.give(reduce(op, p == 1 ? "ReduceL1" : "ReduceL2", op["self"], keeps(op)));
}

/// The mean of the squared distances from the mean, times n / (n - correction).
OnnxValue variance(Conversion& op) {
  OnnxGraph& graph = op.graph;
  double correction = 1;
  if (op.has("unbiased")) correction = op.flag("unbiased") ? 1 : 0;
  if (op.has("correction")) correction = op.real("correction");
  const OnnxValue self = op["self"];
  const OnnxValue distance = graph.add("Sub", {self, reduce(op, "ReduceMean", self, 1)});
  OnnxValue squares = reduce(op, "ReduceMean", graph.add("Mul", {distance, distance}), keeps(op));
  if (correction == 0) return squares;
  double count = 1;
  for (const std::int64_t axis : op.axes("dim", op.rank())) {
    const Size& size = op.tensor("self").shape.at(static_cast<std::size_t>(axis));
    if (!size.is_fixed()) op.refuse("with a correction over a dynamic size");
    count *= static_cast<double>(size.fixed());
  }
  const double factor = count / (count - correction);
  return graph.add("Mul", {squares, graph.scalar(factor, op.result().element)});
}
void var(Conversion& op) { op.give(variance(op)); }
void standard_deviation(Conversion& op) { op.give(op.graph.add("Sqrt", {variance(op)})); }

void cumulative_sum(Conversion& op) {
  const OnnxValue axis = op.graph.scalar(op.axis("dim", op.rank()), ElementType::int64);
  op.give(op.graph.add("CumSum", {op.as(op.result().element, "self"), axis}));
}

Converter along_axis(const char* name) {
  return [name](Conversion& op) {
    const OnnxValue self = op.as(op.result().element, "self");
    op.give(op.graph.add(name, {self}, {{"axis", op.axis("dim", op.rank())}}));
  };
}

/// The `count` largest or smallest along the dimension, in order, and their places.
OnnxValues top(Conversion& op, const Size& count, bool largest) {
  return op.graph.add("TopK", {op["self"], op.graph.size(count)},
                      {{"axis", op.axis("dim", op.rank())},
                       {"largest", std::int64_t{largest ? 1 : 0}},
                       {"sorted", std::int64_t{1}}},
                      2);
}

void top_k(Conversion& op) {
  const OnnxValues found = top(op, op.size("k"), op.flag("largest"));
  op.give(found[0], 0);
  op.give(found[1], 1);
}

OnnxValues sorted(Conversion& op) {
  const auto axis = static_cast<std::size_t>(op.axis("dim", op.rank()));
  return top(op, op.known(op.tensor("self").shape).at(axis), op.flag("descending"));
}
void sort(Conversion& op) {
  const OnnxValues found = sorted(op);
  op.give(found[0], 0);
  op.give(found[1], 1);
}
void order(Conversion& op) { op.give(sorted(op)[1]); }

}  // namespace

const Converters& reduction_converters() {
  static const Converters table = {
      {"aten::all", reduction_of_truth("ReduceMin")},
      {"aten::amax", reduction("ReduceMax")},
      {"aten::amin", reduction("ReduceMin")},
      {"aten::any", reduction_of_truth("ReduceMax")},
      {"aten::argmax", place_of_extreme("ArgMax")},
      {"aten::argmin", place_of_extreme("ArgMin")},
      {"aten::argsort", order},
      {"aten::bucketize", bucketize},
      {"aten::cumsum", cumulative_sum},
      {"aten::frobenius_norm", norm},
      {"aten::linalg_vector_norm", norm},
      {"aten::log_softmax", along_axis("LogSoftmax")},
      {"aten::logsumexp", reduction("ReduceLogSumExp")},
      {"aten::max", extreme("Max", "ReduceMax", "ArgMax")},
      {"aten::mean", reduction("ReduceMean")},
      {"aten::min", extreme("Min", "ReduceMin", "ArgMin")},
      {"aten::norm", norm},
      {"aten::prod", reduction("ReduceProd")},
      {"aten::softmax", along_axis("Softmax")},
      {"aten::sort", sort},
      {"aten::std", standard_deviation},
      {"aten::sum", sum},
      {"aten::topk", top_k},
      {"aten::var", var},
  };
  return table;
}

}  // namespace troupe::detail
