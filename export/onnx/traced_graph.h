// TracedGraph: what one run of a model did, as plain data: operators in order, their arguments by
// name, the type and shape of every tensor. Free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::detail {

/// With the numbers of ONNX's TensorProto::DataType.
enum class ElementType {
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  bfloat16 = 16
};

/// A whole number of a trace. In one trace it is fixed. In what merge_traces makes of several it
/// may depend on the dynamic sizes: with the sizes s0, s1, ... it is the sum over all subsets of
/// them of a coefficient times the subset's product. The subset of coefficients[i] has the sizes
/// whose bits are set in i: c[0] + c[1] s0 + c[2] s1 + c[3] s0 s1 ...
struct Size {
  std::vector<std::int64_t> coefficients;  // empty: depends on them in another way

  Size() = default;
  Size(std::int64_t fixed) : coefficients{fixed} {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool is_known() const { return !coefficients.empty(); }
  /// Does not depend on a dynamic size.
  [[nodiscard]] bool is_fixed() const { return coefficients.size() == 1; }
  /// Requires is_fixed().
  [[nodiscard]] std::int64_t fixed() const { return coefficients.front(); }
};

/// The values of a tensor that is part of the model.
struct Weights {
  std::string name;                 // of the parameter or buffer; "": forward made it
  const std::byte* data = nullptr;  // little-endian, row by row
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;  // of `data`
};

struct TracedTensor {
  ElementType element = ElementType::float32;
  std::vector<Size> shape;
  std::shared_ptr<const Weights> weights;  // null: it was computed, or is an input
};

struct Nothing {};
using ValueId = std::size_t;  // place in TracedGraph::values
using TracedList = std::vector<ValueId>;
using TracedValue =
    std::variant<Nothing, bool, Size, double, std::string, TracedList, TracedTensor>;

struct TracedNode {
  std::string op;                                          // "aten::relu"
  std::vector<std::pair<std::string, ValueId>> arguments;  // by the names of the op's schema
  std::vector<ValueId> outputs;
};

struct TracedGraph {
  std::vector<TracedValue> values;
  std::vector<TracedNode> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

}  // namespace troupe::detail
