// Operators that compute each element from those at its place.
#include <string>

#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

bool is_real(ElementType element) {
  return element == ElementType::float16 || element == ElementType::bfloat16 ||
         element == ElementType::float32 || element == ElementType::float64;
}

/// The type in which a tensor and a tensor or number are compared.
ElementType common_type(const Conversion& op) {
  const auto rank = [](ElementType element) {
    if (element == ElementType::boolean) return 0;
    if (element == ElementType::float16 || element == ElementType::bfloat16) return 20;
    return is_real(element) ? 10 + static_cast<int>(element) * 10 : static_cast<int>(element);
  };
  const TracedTensor& self = op.tensor("self");
  if (op.is<TracedTensor>("other")) {
    const TracedTensor& other = op.tensor("other");
    const bool same_kind = is_real(self.element) == is_real(other.element);
    // A tensor without dimensions weighs as a number does.
    if (same_kind && self.shape.empty() != other.shape.empty()) {
      return self.shape.empty() ? other.element : self.element;
    }
    return rank(self.element) >= rank(other.element) ? self.element : other.element;
  }
  if (is_real(self.element)) return self.element;
  return op.is<double>("other")                 ? ElementType::float32
         : self.element == ElementType::boolean ? ElementType::int64
                                                : self.element;
}

Converter compare(const char* name, bool inverted = false) {
  return [=](Conversion& op) {
    const ElementType element = common_type(op);
    const OnnxValue holds = op.graph.add(name, {op.as(element, "self"), op.as(element, "other")});
    op.give(inverted ? op.graph.add("Not", {holds}) : holds);
  };
}

/// Of truth values; aten::logical_and takes any, aten::bitwise_and whole numbers too.
Converter logical(const char* name, const std::vector<const char*>& arguments = {"self", "other"}) {
  return [=](Conversion& op) {
    if (op.result().element != ElementType::boolean) op.refuse("on whole numbers");
    operator_of(name, arguments)(op);
  };
}

/// Other is taken alpha times.
Converter plus(const char* name) {
  return [name](Conversion& op) {
    const ElementType element = op.result().element;
    if (element == ElementType::boolean) op.refuse("on truth values");
    const OnnxValue self = op.as(element, "self");
    OnnxValue other = op.as(element, "other");
    if (op.real("alpha", 1) != 1) {
      other = op.graph.add("Mul", {other, op.as(element, "alpha")});
    }
    op.give(op.graph.add(name, {self, other}));
  };
}

void subtract_from(Conversion& op) {
  if (op.real("alpha", 1) != 1) op.refuse("with another alpha than 1");
  operator_of("Sub", {"other", "self"})(op);
}

void multiply(Conversion& op) {
  const bool truth = op.result().element == ElementType::boolean;
  operator_of(truth ? "And" : "Mul", {"self", "other"})(op);
}

void divide(Conversion& op) {
  const ElementType element = op.result().element;
  const std::string rounding = op.has("rounding_mode") ? op.word("rounding_mode") : "";
  if (!rounding.empty() && !is_real(element)) op.refuse("with rounding on whole numbers");
  OnnxValue quotient = op.graph.add("Div", {op.as(element, "self"), op.as(element, "other")});
  if (rounding == "floor") quotient = op.graph.add("Floor", {quotient});
  if (rounding == "trunc") {
    const OnnxValue size = op.graph.add("Floor", {op.graph.add("Abs", {quotient})});
    quotient = op.graph.add("Mul", {op.graph.add("Sign", {quotient}), size});
  }
  op.give(quotient);
}

void remainder(Conversion& op) {
  const ElementType element = op.result().element;
  const OnnxValue a = op.as(element, "self");
  const OnnxValue b = op.as(element, "other");
  if (!is_real(element)) {
    op.give(op.graph.add("Mod", {a, b}));
    return;
  }
  const OnnxValue whole = op.graph.add("Floor", {op.graph.add("Div", {a, b})});
  op.give(op.graph.add("Sub", {a, op.graph.add("Mul", {whole, b})}));
}

void reciprocal_root(Conversion& op) {
  const OnnxValue root = op.graph.add("Sqrt", {op.as(op.result().element, "self")});
  op.give(op.graph.add("Reciprocal", {root}));
}

void log_of_one_more(Conversion& op) {
  const ElementType element = op.result().element;
  const OnnxValue one = op.graph.scalar(1.0, element);
  op.give(op.graph.add("Log", {op.graph.add("Add", {op.as(element, "self"), one})}));
}

Converter clamp(const char* low, const char* high) {
  return [=](Conversion& op) {
    const ElementType element = op.result().element;
    OnnxValue value = op.as(element, "self");
    if (op.has(low)) value = op.graph.add("Max", {value, op.as(element, low)});
    if (op.has(high)) value = op.graph.add("Min", {value, op.as(element, high)});
    op.give(value);
  };
}

/// Elements of one argument where `condition` holds, else of the other.
Converter where(const char* condition, const char* held, const char* otherwise) {
  return [=](Conversion& op) {
    const ElementType element = op.result().element;
    op.give(op.graph.add("Where", {op.as(ElementType::boolean, condition), op.as(element, held),
                                   op.as(element, otherwise)}));
  };
}

}  // namespace

const Converters& elementwise_converters() {
  static const Converters table = {
      {"aten::__and__", logical("And")},
      {"aten::__or__", logical("Or")},
      {"aten::__xor__", logical("Xor")},
      {"aten::abs", unary("Abs")},
      {"aten::acos", unary("Acos")},
      {"aten::add", plus("Add")},
      {"aten::asin", unary("Asin")},
      {"aten::atan", unary("Atan")},
      {"aten::bitwise_and", logical("And")},
      {"aten::bitwise_not", logical("Not", {"self"})},
      {"aten::bitwise_or", logical("Or")},
      {"aten::bitwise_xor", logical("Xor")},
      {"aten::ceil", unary("Ceil")},
      {"aten::clamp", clamp("min", "max")},
      {"aten::clamp_max", clamp("min", "max")},
      {"aten::clamp_min", clamp("min", "max")},
      {"aten::cos", unary("Cos")},
      {"aten::cosh", unary("Cosh")},
      {"aten::div", divide},
      {"aten::eq", compare("Equal")},
      {"aten::erf", unary("Erf")},
      {"aten::exp", unary("Exp")},
      {"aten::floor", unary("Floor")},
      {"aten::ge", compare("GreaterOrEqual")},
      {"aten::gt", compare("Greater")},
      {"aten::hardtanh", clamp("min_val", "max_val")},
      {"aten::le", compare("LessOrEqual")},
      {"aten::log", unary("Log")},
      {"aten::log1p", log_of_one_more},
      {"aten::logical_and", logical("And")},
      {"aten::logical_not", logical("Not", {"self"})},
      {"aten::logical_or", logical("Or")},
      {"aten::logical_xor", logical("Xor")},
      {"aten::lt", compare("Less")},
      {"aten::masked_fill", where("mask", "value", "self")},
      {"aten::maximum", operator_of("Max", {"self", "other"})},
      {"aten::minimum", operator_of("Min", {"self", "other"})},
      {"aten::mul", multiply},
      {"aten::ne", compare("Equal", true)},
      {"aten::neg", unary("Neg")},
      {"aten::pow", operator_of("Pow", {"self", "exponent"})},
      {"aten::reciprocal", unary("Reciprocal")},
      {"aten::remainder", remainder},
      {"aten::round", unary("Round")},
      {"aten::rsqrt", reciprocal_root},
      {"aten::rsub", subtract_from},
      {"aten::sign", unary("Sign")},
      {"aten::sin", unary("Sin")},
      {"aten::sinh", unary("Sinh")},
      {"aten::sqrt", unary("Sqrt")},
      {"aten::square", operator_of("Mul", {"self", "self"})},
      {"aten::sub", plus("Sub")},
      {"aten::tan", unary("Tan")},
      {"aten::where", where("condition", "self", "other")},
  };
  return table;
}

}  // namespace troupe::detail
