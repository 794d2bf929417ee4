// OnnxGraph: an ONNX graph under construction: nodes, constants, and sizes that are computed from
// the shapes of the inputs.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/export/onnx/dynamic_sizes.h"
#include "troupe/export/onnx/traced_graph.h"

namespace troupe::detail {

/// A value of the graph, by name. Empty: an optional input of a node that is left out.
using OnnxValue = std::string;
using OnnxValues = std::vector<OnnxValue>;
using Integers = std::vector<std::int64_t>;

struct OnnxAttribute {
  const char* name;
  std::variant<std::int64_t, float, std::string, Integers> value;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

class OnnxGraph {
 public:
  /// `inputs` and `outputs`: the graph's names for them. `sizes`: whose places are dimensions of
  /// the inputs. `graph` outlives it.
  OnnxGraph(onnx::GraphProto& graph, std::vector<std::string> inputs,
            const std::vector<std::string>& outputs, std::vector<DynamicSize> sizes)
      : graph_(graph),
        inputs_(std::move(inputs)),
        sizes_(std::move(sizes)),
        reserved_(inputs_.begin(), inputs_.end()) {
    reserved_.insert(outputs.begin(), outputs.end());
  }

  /// Adds the node `op` with one output, or several; returns it, or them.
  OnnxValue add(const char* op, const OnnxValues& inputs, const OnnxAttributes& attributes = {});
  OnnxValues add(const char* op, const OnnxValues& inputs, const OnnxAttributes& attributes,
                 std::size_t outputs);
  /// A node whose output has a name of its own.
  void add_named(const char* op, const OnnxValue& input, const std::string& output);

  /// The tensor of the model, once, however often it is asked for.
  [[nodiscard]] OnnxValue weights(const TracedTensor& tensor);
  /// A one-dimensional int64 constant.
  [[nodiscard]] OnnxValue integers(const Integers& values);
  /// A constant without dimensions. Of `element` as near as it comes to `value`.
  [[nodiscard]] OnnxValue scalar(double value, ElementType element);
  [[nodiscard]] OnnxValue scalar(std::int64_t value, ElementType element);
  [[nodiscard]] OnnxValue cast(const OnnxValue& value, ElementType element);

  /// int64 [1]. Requires a known size.
  [[nodiscard]] OnnxValue size(const Size& size);
  /// int64 [n]: known sizes one after the other.
  [[nodiscard]] OnnxValue sizes(const std::vector<Size>& sizes);

 private:
  /// A tensor of `element` with these bytes; equal ones once.
  OnnxValue constant(ElementType element, const Integers& shape, const void* data,
                     std::size_t bytes);
  /// int64 [1]: the product of the dynamic sizes whose bits are set.
  OnnxValue product(std::size_t subset);
  /// "/kind_7", taken by nothing else.
  OnnxValue unused_name(const std::string& kind);

  onnx::GraphProto& graph_;
  const std::vector<std::string> inputs_;
  const std::vector<DynamicSize> sizes_;
  std::set<std::string> reserved_;                                 // names that are taken
  std::map<std::string, OnnxValue> constants_;                     // by type, shape and bytes
  std::map<const void*, OnnxValue> weights_;                       // by address
  std::map<std::vector<std::int64_t>, OnnxValue> computed_sizes_;  // by coefficients
  std::size_t names_ = 0;
};

}  // namespace troupe::detail
