#include "troupe/export/onnx/onnx_graph.h"

#include <algorithm>
#include <cctype>

#include "troupe/core/check.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

void set_attribute(onnx::AttributeProto& to, const OnnxAttribute& from) {
  to.set_name(from.name);
  if (const auto* number = std::get_if<std::int64_t>(&from.value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*number);
  } else if (const auto* real = std::get_if<float>(&from.value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(*real);
  } else if (const auto* string = std::get_if<std::string>(&from.value)) {
    to.set_type(onnx::AttributeProto::STRING);
    to.set_s(*string);
  } else {
    to.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : std::get<Integers>(from.value)) to.add_ints(value);
  }
}

}  // namespace

OnnxValue OnnxGraph::unused_name(const std::string& kind) {
  std::string lower = kind;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (;;) {
    OnnxValue name = text("/", lower, "_", names_++);
    if (reserved_.insert(name).second) return name;
  }
}

OnnxValue OnnxGraph::add(const char* op, const OnnxValues& inputs,
                         const OnnxAttributes& attributes) {
  return add(op, inputs, attributes, 1).front();
}

OnnxValues OnnxGraph::add(const char* op, const OnnxValues& inputs,
                          const OnnxAttributes& attributes, std::size_t outputs) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  for (const OnnxValue& input : inputs) node.add_input(input);
  for (const OnnxAttribute& attribute : attributes) {
    set_attribute(*node.add_attribute(), attribute);
  }
  OnnxValues results;
  for (std::size_t i = 0; i < outputs; ++i) {
    results.push_back(unused_name(op));
    node.add_output(results.back());
  }
  node.set_name(results.front());
  return results;
}

void OnnxGraph::add_named(const char* op, const OnnxValue& input, const std::string& output) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  node.set_name(unused_name(op));
  node.add_input(input);
  node.add_output(output);
}

OnnxValue OnnxGraph::weights(const TracedTensor& tensor) {
  const Weights& weights = *tensor.weights;
  // Empty tensors have no address of their own.
  const auto known = weights_.find(weights.data);
  if (known != weights_.end() && weights.bytes > 0) return known->second;
  onnx::TensorProto& stored = *graph_.add_initializer();
  const bool own = !weights.name.empty() && reserved_.insert(weights.name).second;
  stored.set_name(own ? weights.name : unused_name("constant"));
  stored.set_data_type(static_cast<int>(tensor.element));
  for (const Size& size : tensor.shape) stored.add_dims(size.fixed());
  stored.set_raw_data(weights.data, weights.bytes);
  return weights_[weights.data] = stored.name();
}

OnnxValue OnnxGraph::constant(ElementType element, const Integers& shape, const void* data,
                              std::size_t bytes) {
  std::string key = text(static_cast<int>(element), ":");
  for (const std::int64_t size : shape) key += text(size, ",");
  key.append(static_cast<const char*>(data), bytes);
  OnnxValue& name = constants_[key];
  if (!name.empty()) return name;
  onnx::TensorProto& stored = *graph_.add_initializer();
  stored.set_name(unused_name("constant"));
  stored.set_data_type(static_cast<int>(element));
  for (const std::int64_t size : shape) stored.add_dims(size);
  stored.set_raw_data(data, bytes);
  return name = stored.name();
}

OnnxValue OnnxGraph::integers(const Integers& values) {
  return constant(ElementType::int64, {static_cast<std::int64_t>(values.size())}, values.data(),
                  values.size() * sizeof(std::int64_t));
}

OnnxValue OnnxGraph::scalar(double value, ElementType element) {
  if (element == ElementType::float64) return constant(element, {}, &value, sizeof value);
  const auto narrow = static_cast<float>(value);
  const OnnxValue number = constant(ElementType::float32, {}, &narrow, sizeof narrow);
  return element == ElementType::float32 ? number : cast(number, element);
}

OnnxValue OnnxGraph::scalar(std::int64_t value, ElementType element) {
  if (element == ElementType::float32 || element == ElementType::float64) {
    return scalar(static_cast<double>(value), element);
  }
  const OnnxValue number = constant(ElementType::int64, {}, &value, sizeof value);
  return element == ElementType::int64 ? number : cast(number, element);
}

OnnxValue OnnxGraph::cast(const OnnxValue& value, ElementType element) {
  return add("Cast", {value}, {{"to", static_cast<std::int64_t>(element)}});
}

OnnxValue OnnxGraph::product(std::size_t subset) {
  OnnxValue value;
  for (std::size_t s = 0; s < sizes_.size(); ++s) {
    if ((subset >> s & 1U) == 0) continue;
    Size one;
    one.coefficients.assign(std::size_t{1} << sizes_.size(), 0);
    one.coefficients[std::size_t{1} << s] = 1;
    // The size itself, known by its coefficients.
    OnnxValue& known = computed_sizes_[one.coefficients];
    if (known.empty()) {
      const DynamicSize::Place& place = sizes_[s].places.front();
      const auto axis = static_cast<std::int64_t>(place.dimension);
      known = add("Shape", {inputs_.at(place.input)}, {{"start", axis}, {"end", axis + 1}});
    }
    value = value.empty() ? known : add("Mul", {value, known});
  }
  return value;
}

OnnxValue OnnxGraph::size(const Size& size) {
  TROUPE_CHECK(size.is_known());
  if (size.is_fixed()) return integers({size.fixed()});
  const auto known = computed_sizes_.find(size.coefficients);
  if (known != computed_sizes_.end()) return known->second;
  OnnxValue sum;
  for (std::size_t subset = 1; subset < size.coefficients.size(); ++subset) {
    const std::int64_t coefficient = size.coefficients[subset];
    if (coefficient == 0) continue;
    OnnxValue term = product(subset);
    if (coefficient != 1) term = add("Mul", {term, integers({coefficient})});
    sum = sum.empty() ? term : add("Add", {sum, term});
  }
  if (size.coefficients.front() != 0) {
    sum = add("Add", {sum, integers({size.coefficients.front()})});
  }
  return computed_sizes_[size.coefficients] = sum;
}

OnnxValue OnnxGraph::sizes(const std::vector<Size>& sizes) {
  OnnxValues parts;
  Integers fixed;  // that follow one another
  const auto flush = [&] {
    if (!fixed.empty()) parts.push_back(integers(fixed));
    fixed.clear();
  };
  for (const Size& one : sizes) {
    if (one.is_fixed()) {
      fixed.push_back(one.fixed());
      continue;
    }
    flush();
    parts.push_back(size(one));
  }
  flush();
  if (parts.empty()) return integers({});
  return parts.size() == 1 ? parts.front() : add("Concat", parts, {{"axis", std::int64_t{0}}});
}

}  // namespace troupe::detail
