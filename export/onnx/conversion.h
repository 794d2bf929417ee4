// Conversion: one operator of a trace on its way to ONNX, as its converter sees it: arguments by
// name, already in ONNX's terms, and the graph to add nodes to.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/export/onnx/onnx_graph.h"
#include "troupe/export/onnx/traced_graph.h"

namespace troupe::detail {

/// Names of a trace's tensors in the ONNX graph.
using OnnxNames = std::map<ValueId, OnnxValue>;

/// What the trace says of one operator: its arguments by the names of its schema.
class OperatorArguments {
 public:
  /// Both outlive it.
  OperatorArguments(const TracedGraph& trace, const TracedNode& node)
      : trace_(trace), node_(node) {}

  /// Ends the conversion: the operator is covered, but not like this. Throws: ConfigError.
  [[noreturn]] void refuse(const std::string& what) const;

  /// Whether the argument exists and is not None.
  [[nodiscard]] bool has(const char* name) const;
  template <class Kind>
  [[nodiscard]] bool is(const char* name) const {
    return std::holds_alternative<Kind>(value(name));
  }
  /// What the trace knows of a tensor. Throws (as all below): ConfigError where it is none.
  [[nodiscard]] const TracedTensor& tensor(const char* name) const;
  /// Dimensions of the tensor self.
  [[nodiscard]] std::size_t rank() const { return tensor("self").shape.size(); }

  [[nodiscard]] Size size(const char* name) const;
  [[nodiscard]] std::vector<Size> sizes(const char* name) const;
  /// A number that does not depend on sizes.
  [[nodiscard]] std::int64_t whole(const char* name) const;
  [[nodiscard]] std::int64_t whole(const char* name, std::int64_t otherwise) const;
  [[nodiscard]] Integers wholes(const char* name) const;
  /// One number for all of `count` dimensions, or one for each.
  [[nodiscard]] Integers wholes(const char* name, std::size_t count) const;
  [[nodiscard]] double real(const char* name) const;
  [[nodiscard]] double real(const char* name, double otherwise) const;
  /// Of a list, or one number.
  [[nodiscard]] std::vector<double> reals(const char* name) const;
  [[nodiscard]] bool flag(const char* name) const;
  [[nodiscard]] std::string word(const char* name) const;

  /// The dimension that the argument names, counted from the front of `rank` dimensions.
  [[nodiscard]] std::int64_t axis(const char* name, std::size_t rank) const;
  /// The same for a list; None and an empty list are all dimensions.
  [[nodiscard]] Integers axes(const char* name, std::size_t rank) const;

 protected:
  [[nodiscard]] const ValueId* find(const char* name) const;
  [[nodiscard]] const TracedValue& value(const char* name) const;
  /// Throws: ConfigError where `value`, of the argument `name`, is no Kind.
  template <class Kind>
  [[nodiscard]] const Kind& get(const TracedValue& value, const char* name,
                                const char* wanted) const;
  [[nodiscard]] std::int64_t fixed(const char* name, const Size& number) const;

  const TracedGraph& trace_;
  const TracedNode& node_;
};

class Conversion : public OperatorArguments {
 public:
  /// All outlive it.
  Conversion(const TracedGraph& trace, const TracedNode& node, OnnxGraph& to, OnnxNames& names)
      : OperatorArguments(trace, node), graph(to), names_(names) {}

  OnnxGraph& graph;

  /// The tensor in the ONNX graph.
  [[nodiscard]] OnnxValue operator[](const char* name);
  /// A tensor or a number, as `element`.
  [[nodiscard]] OnnxValue as(ElementType element, const char* name);
  /// The tensors of a list; an empty name for None.
  [[nodiscard]] OnnxValues tensors(const char* name);
  using OperatorArguments::tensor;
  [[nodiscard]] const TracedTensor& tensor(const char* name, std::size_t place) const;

  [[nodiscard]] const TracedTensor& result(std::size_t number = 0) const;
  [[nodiscard]] std::size_t result_count() const { return node_.outputs.size(); }
  /// The same sizes. Throws: ConfigError where one is not linear in the dynamic ones.
  [[nodiscard]] std::vector<Size> known(const std::vector<Size>& sizes) const;
  /// What the operator's output is.
  void give(const OnnxValue& value, std::size_t number = 0);
  /// `value` in the shape of a tensor, of whose sizes one alone may be unknown.
  [[nodiscard]] OnnxValue reshape(const OnnxValue& value, const std::vector<Size>& shape);

 private:
  [[nodiscard]] OnnxValue name_of(ValueId id);

  OnnxNames& names_;
};

/// Adds the nodes that do what the operation does, and gives its outputs.
using Converter = std::function<void(Conversion&)>;
/// One operator of that name of these arguments, in the result's type.
[[nodiscard]] Converter operator_of(const char* name, std::vector<const char*> arguments);
[[nodiscard]] inline Converter unary(const char* name) { return operator_of(name, {"self"}); }

/// By the operator's name, "aten::relu". Null: not covered.
[[nodiscard]] const Converter* find_converter(const std::string& op);

/// The covered operators of one kind.
using Converters = std::map<std::string, Converter>;
[[nodiscard]] const Converters& activation_converters();
[[nodiscard]] const Converters& elementwise_converters();
[[nodiscard]] const Converters& shape_converters();
[[nodiscard]] const Converters& creation_converters();
[[nodiscard]] const Converters& reduction_converters();
[[nodiscard]] const Converters& layer_converters();
[[nodiscard]] const Converters& recurrent_converters();

}  // namespace troupe::detail
