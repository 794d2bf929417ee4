// Operators that make tensors of numbers, in sizes that may be dynamic.
#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

/// `value` in the result's shape.
OnnxValue filled(Conversion& op, const OnnxValue& value) {
  return op.graph.add("Expand", {value, op.graph.sizes(op.known(op.result().shape))});
}

Converter filled_with(std::int64_t value) {
  return
      [value](Conversion& op) { op.give(filled(op, op.graph.scalar(value, op.result().element))); };
}

Converter filled_by(const char* argument) {
  return [argument](Conversion& op) { op.give(filled(op, op.as(op.result().element, argument))); };
}

/// Nothing, unless an operator that follows fills it: what the program writes there by itself, no
/// trace sees.
void leave_empty(Conversion& /*op*/) {}

/// Real numbers by their places, as LibTorch counts and computes them: Range, which adds up, may
/// end one place later.
void arange(Conversion& op) {
  const ElementType element = op.result().element;
  const Size& count = op.result().shape.front();
  if (element != ElementType::int64 && element != ElementType::int32 && count.is_fixed()) {
    const auto place = [&](std::int64_t value) {
      return op.graph.scalar(value, ElementType::int64);
    };
    OnnxValue value =
        op.graph.cast(op.graph.add("Range", {place(0), place(count.fixed()), place(1)}), element);
    if (op.has("step")) value = op.graph.add("Mul", {value, op.as(element, "step")});
    if (op.has("start")) value = op.graph.add("Add", {value, op.as(element, "start")});
    return op.give(value);
  }
  const auto number = [&](const char* name, std::int64_t otherwise) {
    return op.has(name) ? op.as(element, name) : op.graph.scalar(otherwise, element);
  };
  op.give(op.graph.add("Range", {number("start", 0), number("end", 0), number("step", 1)}));
}

void eye(Conversion& op) {
  const OnnxValue zero = op.graph.scalar(std::int64_t{0}, op.result().element);
  op.give(op.graph.add("EyeLike", {filled(op, zero)}));
}

/// Each element compared with 0, 1, ... of the classes.
void one_hot(Conversion& op) {
  OnnxGraph& graph = op.graph;
  const auto number = [&](std::int64_t value) { return graph.scalar(value, ElementType::int64); };
  const Size classes = op.known(op.result().shape).back();
  if (!classes.is_fixed()) op.refuse("without a fixed number of classes");
  const OnnxValue numbers = graph.add("Range", {number(0), number(classes.fixed()), number(1)});
  const OnnxValue self = graph.add("Unsqueeze", {op["self"], graph.integers({-1})});
  op.give(graph.cast(graph.add("Equal", {self, numbers}), op.result().element));
}

}  // namespace

const Converters& creation_converters() {
  static const Converters table = {
      {"aten::arange", arange},
      {"aten::empty", leave_empty},
      {"aten::empty_like", leave_empty},
      {"aten::eye", eye},
      {"aten::fill", filled_by("value")},
      {"aten::full", filled_by("fill_value")},
      {"aten::full_like", filled_by("fill_value")},
      {"aten::new_empty", leave_empty},
      {"aten::new_full", filled_by("fill_value")},
      {"aten::new_ones", filled_with(1)},
      {"aten::new_zeros", filled_with(0)},
      {"aten::one_hot", one_hot},
      {"aten::ones", filled_with(1)},
      {"aten::ones_like", filled_with(1)},
      {"aten::scalar_tensor", [](Conversion& op) { op.give(op.as(op.result().element, "s")); }},
      {"aten::zero", filled_with(0)},
      {"aten::zeros", filled_with(0)},
      {"aten::zeros_like", filled_with(0)},
  };
  return table;
}

}  // namespace troupe::detail
