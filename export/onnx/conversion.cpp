#include "troupe/export/onnx/conversion.h"

#include <algorithm>
#include <numeric>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr const char* kTensors = "a list of tensors";

}  // namespace

void OperatorArguments::refuse(const std::string& what) const {
  throw ConfigError(text("the export to ONNX does not cover ", node_.op, " ", what, "."),
                    "write that part of the model with other operators (docs/onnx.md lists those "
                    "that are covered), or export with --export-format torchscript.");
}

const ValueId* OperatorArguments::find(const char* name) const {
  for (const auto& [argument, id] : node_.arguments) {
    if (argument == name) return &id;
  }
  return nullptr;
}

const TracedValue& OperatorArguments::value(const char* name) const {
  const ValueId* id = find(name);
  if (id == nullptr) refuse(text("without its argument ", name));
  return trace_.values[*id];
}

bool OperatorArguments::has(const char* name) const {
  const ValueId* id = find(name);
  return id != nullptr && !std::holds_alternative<Nothing>(trace_.values[*id]);
}

template <class Kind>
const Kind& OperatorArguments::get(const TracedValue& value, const char* name,
                                   const char* wanted) const {
  const auto* found = std::get_if<Kind>(&value);
  if (found == nullptr) refuse(text("whose argument ", name, " is not ", wanted));
  return *found;
}

const TracedTensor& OperatorArguments::tensor(const char* name) const {
  return get<TracedTensor>(value(name), name, "a tensor");
}

OnnxValue Conversion::name_of(ValueId id) {
  const auto known = names_.find(id);
  if (known != names_.end()) return known->second;
  const auto& tensor = std::get<TracedTensor>(trace_.values[id]);
  if (tensor.weights == nullptr) refuse("on a tensor whose values come from no operator");
  return names_[id] = graph.weights(tensor);
}

OnnxValue Conversion::operator[](const char* name) {
  static_cast<void>(tensor(name));
  return name_of(*find(name));
}

OnnxValue Conversion::as(ElementType element, const char* name) {
  const TracedValue& given = value(name);
  if (const auto* tensor = std::get_if<TracedTensor>(&given)) {
    const OnnxValue named = name_of(*find(name));
    return tensor->element == element ? named : graph.cast(named, element);
  }
  if (const auto* real = std::get_if<double>(&given)) return graph.scalar(*real, element);
  if (const auto* flag = std::get_if<bool>(&given)) {
    return graph.scalar(std::int64_t{*flag ? 1 : 0}, element);
  }
  const Size& number = get<Size>(given, name, "a tensor or a number");
  if (number.is_fixed()) return graph.scalar(number.fixed(), element);
  const OnnxValue scalar = graph.add("Squeeze", {graph.size(number)});
  return element == ElementType::int64 ? scalar : graph.cast(scalar, element);
}

OnnxValues Conversion::tensors(const char* name) {
  OnnxValues names;
  for (const ValueId id : get<TracedList>(value(name), name, kTensors)) {
    const TracedValue& part = trace_.values[id];
    const bool none = std::holds_alternative<Nothing>(part);
    if (!none) static_cast<void>(get<TracedTensor>(part, name, kTensors));
    names.push_back(none ? OnnxValue() : name_of(id));
  }
  return names;
}

const TracedTensor& Conversion::tensor(const char* name, std::size_t place) const {
  const TracedList& list = get<TracedList>(value(name), name, kTensors);
  return get<TracedTensor>(trace_.values[list.at(place)], name, kTensors);
}

Size OperatorArguments::size(const char* name) const {
  return get<Size>(value(name), name, "a whole number");
}

std::vector<Size> OperatorArguments::sizes(const char* name) const {
  const auto* list = std::get_if<TracedList>(&value(name));
  if (list == nullptr) return {size(name)};
  std::vector<Size> numbers;
  for (const ValueId id : *list) {
    numbers.push_back(get<Size>(trace_.values[id], name, "a list of whole numbers"));
  }
  return numbers;
}

std::int64_t OperatorArguments::fixed(const char* name, const Size& number) const {
  if (!number.is_fixed()) refuse(text("whose argument ", name, " is not the same for all sizes"));
  return number.fixed();
}

std::int64_t OperatorArguments::whole(const char* name) const { return fixed(name, size(name)); }

std::int64_t OperatorArguments::whole(const char* name, std::int64_t otherwise) const {
  return has(name) ? whole(name) : otherwise;
}

Integers OperatorArguments::wholes(const char* name) const {
  Integers numbers;
  for (const Size& number : sizes(name)) numbers.push_back(fixed(name, number));
  return numbers;
}

Integers OperatorArguments::wholes(const char* name, std::size_t count) const {
  Integers numbers = wholes(name);
  if (numbers.size() == 1) numbers.resize(count, numbers.front());
  if (numbers.size() != count) {
    refuse(text("whose argument ", name, " is not a number for every dimension"));
  }
  return numbers;
}

double OperatorArguments::real(const char* name) const {
  if (const auto* number = std::get_if<double>(&value(name))) return *number;
  return static_cast<double>(whole(name));
}

double OperatorArguments::real(const char* name, double otherwise) const {
  return has(name) ? real(name) : otherwise;
}

std::vector<double> OperatorArguments::reals(const char* name) const {
  const auto* list = std::get_if<TracedList>(&value(name));
  if (list == nullptr) return {real(name)};
  std::vector<double> numbers;
  for (const ValueId id : *list) {
    const TracedValue& each = trace_.values[id];
    const auto* number = std::get_if<double>(&each);
    numbers.push_back(number != nullptr ? *number
                                        : static_cast<double>(fixed(
                                              name, get<Size>(each, name, "a list of numbers"))));
  }
  return numbers;
}

bool OperatorArguments::flag(const char* name) const {
  if (const auto* flag = std::get_if<bool>(&value(name))) return *flag;
  return whole(name) != 0;
}

std::string OperatorArguments::word(const char* name) const {
  return get<std::string>(value(name), name, "a word");
}

std::int64_t OperatorArguments::axis(const char* name, std::size_t rank) const {
  const std::int64_t axis = whole(name);
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

Integers OperatorArguments::axes(const char* name, std::size_t rank) const {
  Integers axes = has(name) ? wholes(name) : Integers();
  for (std::int64_t& axis : axes) axis += axis < 0 ? static_cast<std::int64_t>(rank) : 0;
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

const TracedTensor& Conversion::result(std::size_t number) const {
  const auto* tensor = std::get_if<TracedTensor>(&trace_.values[node_.outputs.at(number)]);
  if (tensor == nullptr) refuse("whose result is not a tensor");
  return *tensor;
}

std::vector<Size> Conversion::known(const std::vector<Size>& sizes) const {
  for (const Size& size : sizes) {
    if (!size.is_known()) refuse("on a size that is not linear in the dynamic ones");
  }
  return sizes;
}

void Conversion::give(const OnnxValue& value, std::size_t number) {
  names_[node_.outputs.at(number)] = value;
}

OnnxValue Conversion::reshape(const OnnxValue& value, const std::vector<Size>& shape) {
  const auto is_open = [](const Size& size) { return !size.is_fixed(); };
  std::vector<Size> wanted = shape;
  const auto open = std::find_if(wanted.begin(), wanted.end(), is_open);
  if (std::count_if(wanted.begin(), wanted.end(), is_open) == 1) *open = -1;
  return graph.add("Reshape", {value, graph.sizes(known(wanted))});
}

Converter operator_of(const char* name, std::vector<const char*> arguments) {
  return [name, arguments = std::move(arguments)](Conversion& op) {
    OnnxValues inputs;
    for (const char* argument : arguments) inputs.push_back(op.as(op.result().element, argument));
    op.give(op.graph.add(name, inputs));
  };
}

const Converter* find_converter(const std::string& op) {
  for (const Converters* kind :
       {&activation_converters(), &elementwise_converters(), &shape_converters(),
        &creation_converters(), &reduction_converters(), &layer_converters(),
        &recurrent_converters()}) {
    const auto found = kind->find(op);
    if (found != kind->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace troupe::detail
