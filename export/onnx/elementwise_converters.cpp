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
    const auto one_is = [&](ElementType element) {
      return self.element == element || other.element == element;
    };
    if (one_is(ElementType::uint8) && one_is(ElementType::int8)) return ElementType::int16;
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

/// ONNX orders no truth values.
Converter compare(const char* name, bool inverted = false) {
  return [=](Conversion& op) {
    ElementType element = common_type(op);
    if (element == ElementType::boolean) element = ElementType::int32;
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

/// a / b of real numbers as LibTorch divides them into a whole quotient and a rest, which is exact
/// where the quotient is large, too.
struct Division {
  OnnxValue a, b;
  OnnxValue rest;   // with the sign of a
  OnnxValue moves;  // whether the rest is to have the other sign
};
Division division(Conversion& op, ElementType element) {
  OnnxGraph& graph = op.graph;
  Division made{op.as(element, "self"), op.as(element, "other"), {}, {}};
  const OnnxValue zero = graph.scalar(0.0, element);
  made.rest = graph.add("Mod", {made.a, made.b}, {{"fmod", std::int64_t{1}}});
  const OnnxValue signs_differ =
      graph.add("Xor", {graph.add("Less", {made.rest, zero}), graph.add("Less", {made.b, zero})});
  const OnnxValue is_whole = graph.add("Equal", {made.rest, zero});
  made.moves = graph.add("And", {signs_differ, graph.add("Not", {is_whole})});
  return made;
}

/// Rounded down; by zero as without rounding.
OnnxValue floor_quotient(Conversion& op, ElementType element) {
  OnnxGraph& graph = op.graph;
  const Division of = division(op, element);
  const OnnxValue whole =
      graph.add("Round", {graph.add("Div", {graph.add("Sub", {of.a, of.rest}), of.b})});
  const OnnxValue down = graph.add("Sub", {whole, graph.cast(of.moves, element)});
  const OnnxValue by_zero = graph.add("Equal", {of.b, graph.scalar(0.0, element)});
  return graph.add("Where", {by_zero, graph.add("Div", {of.a, of.b}), down});
}

void divide(Conversion& op) {
  const ElementType element = op.result().element;
  const std::string rounding = op.has("rounding_mode") ? op.word("rounding_mode") : "";
  if (!rounding.empty() && !is_real(element)) op.refuse("with rounding on whole numbers");
  if (rounding == "floor") return op.give(floor_quotient(op, element));
  OnnxValue quotient = op.graph.add("Div", {op.as(element, "self"), op.as(element, "other")});
  if (rounding == "trunc") {
    const OnnxValue size = op.graph.add("Floor", {op.graph.add("Abs", {quotient})});
    quotient = op.graph.add("Mul", {op.graph.add("Sign", {quotient}), size});
  }
  op.give(quotient);
}

/// With the sign of the divisor.
void remainder(Conversion& op) {
  const ElementType element = op.result().element;
  if (!is_real(element)) {
    return op.give(op.graph.add("Mod", {op.as(element, "self"), op.as(element, "other")}));
  }
  const Division of = division(op, element);
  op.give(op.graph.add("Where", {of.moves, op.graph.add("Add", {of.rest, of.b}), of.rest}));
}

/// Whole numbers stay what they are.
Converter rounding(const char* name) {
  return [name](Conversion& op) {
    if (op.whole("decimals", 0) != 0) op.refuse("to decimals");
    const ElementType element = op.result().element;
    op.give(is_real(element) ? op.graph.add(name, {op.as(element, "self")})
                             : op.as(element, "self"));
  };
}

void negate(Conversion& op) {
  if (op.result().element == ElementType::uint8) op.refuse("on numbers without a sign");
  unary("Neg")(op);
}

/// LibTorch takes a root where the exponent says so, which tells -0 from 0 and has none of minus
/// infinity.
void power(Conversion& op) {
  const ElementType element = op.result().element;
  const bool by_number = is_real(element) && (op.is<double>("exponent") || op.is<Size>("exponent"));
  const double exponent = by_number ? op.real("exponent") : 1;
  if (exponent != 0.5 && exponent != -0.5) return operator_of("Pow", {"self", "exponent"})(op);
  const OnnxValue root = op.graph.add("Sqrt", {op.as(element, "self")});
  op.give(exponent > 0 ? root : op.graph.add("Reciprocal", {root}));
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
      {"aten::ceil", rounding("Ceil")},
      {"aten::clamp", clamp("min", "max")},
      {"aten::clamp_max", clamp("min", "max")},
      {"aten::clamp_min", clamp("min", "max")},
      {"aten::cos", unary("Cos")},
      {"aten::cosh", unary("Cosh")},
      {"aten::div", divide},
      {"aten::eq", compare("Equal")},
      {"aten::erf", unary("Erf")},
      {"aten::exp", unary("Exp")},
      {"aten::floor", rounding("Floor")},
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
      {"aten::neg", negate},
      {"aten::pow", power},
      {"aten::reciprocal", unary("Reciprocal")},
      {"aten::remainder", remainder},
      {"aten::round", rounding("Round")},
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
