// Operators that compute one value from many along dimensions, or each from those before it.
#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

std::int64_t keeps(const Conversion& op) { return op.has("keepdim") && op.flag("keepdim") ? 1 : 0; }

/// One without dimensions to reduce is the value itself. Of ReduceSum alone they are an input.
OnnxValue reduce(Conversion& op, const std::string& name, const OnnxValue& value,
                 std::int64_t keep) {
  const Integers axes = op.axes("dim", op.rank());
  if (axes.empty()) return value;
  if (name != "ReduceSum") {
    return op.graph.add(name.c_str(), {value}, {{"axes", axes}, {"keepdims", keep}});
  }
  return op.graph.add("ReduceSum", {value, op.graph.integers(axes)}, {{"keepdims", keep}});
}

Converter reduction(const char* name) {
  return [name](Conversion& op) {
    op.give(reduce(op, name, op.as(op.result().element, "self"), keeps(op)));
  };
}

/// Of truth values, which ONNX reduces as numbers.
Converter reduction_of_truth(const char* name) {
  return [name](Conversion& op) {
    const OnnxValue truth = op.as(ElementType::boolean, "self");
    const OnnxValue numbers = op.graph.cast(truth, ElementType::int32);
    op.give(op.graph.cast(reduce(op, name, numbers, keeps(op)), ElementType::boolean));
  };
}

/// Where along a dimension the extreme is.
OnnxValue place_of(Conversion& op, const char* name) {
  const std::int64_t axis = op.axis("dim", op.rank());
  return op.graph.add(name, {op["self"]}, {{"axis", axis}, {"keepdims", keeps(op)}});
}

/// max and min: of two tensors, of a whole tensor, or along a dimension with places.
Converter extreme(const char* binary, const char* reduction, const char* place) {
  return [=](Conversion& op) {
    if (op.has("other")) return operator_of(binary, {"self", "other"})(op);
    op.give(reduce(op, reduction, op["self"], keeps(op)));
    if (op.result_count() > 1) op.give(place_of(op, place), 1);
  };
}

Converter place_of_extreme(const char* name) {
  return [name](Conversion& op) {
    if (op.has("dim")) return op.give(place_of(op, name));
    const OnnxValue flat = op.graph.add("Reshape", {op["self"], op.graph.integers({-1})});
    op.give(op.graph.add(name, {flat}, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}}));
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

/// The `count` largest or smallest along the dimension, in order, and their places: both, or the
/// places alone.
void give_top(Conversion& op, const Size& count, const char* largest) {
  const OnnxValues found = op.graph.add("TopK", {op["self"], op.graph.size(count)},
                                        {{"axis", op.axis("dim", op.rank())},
                                         {"largest", std::int64_t{op.flag(largest)}},
                                         {"sorted", std::int64_t{1}}},
                                        2);
  const std::size_t first = 2 - op.result_count();
  for (std::size_t i = first; i < 2; ++i) op.give(found[i], i - first);
}

void top(Conversion& op) {
  if (!op.flag("sorted")) op.refuse("in any order: leave sorted on");
  give_top(op, op.size("k"), "largest");
}

void sort(Conversion& op) {
  const auto axis = static_cast<std::size_t>(op.axis("dim", op.rank()));
  give_top(op, op.known(op.tensor("self").shape).at(axis), "descending");
}

}  // namespace

const Converters& reduction_converters() {
  static const Converters table = {
      {"aten::all", reduction_of_truth("ReduceMin")},
      {"aten::amax", reduction("ReduceMax")},
      {"aten::amin", reduction("ReduceMin")},
      {"aten::any", reduction_of_truth("ReduceMax")},
      {"aten::argmax", place_of_extreme("ArgMax")},
      {"aten::argmin", place_of_extreme("ArgMin")},
      {"aten::argsort", sort},
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
      {"aten::std", [](Conversion& op) { op.give(op.graph.add("Sqrt", {variance(op)})); }},
      {"aten::sum", reduction("ReduceSum")},
      {"aten::topk", top},
      {"aten::var", [](Conversion& op) { op.give(variance(op)); }},
  };
  return table;
}

}  // namespace troupe::detail
